"""A tournament: many policies in all their combinations over many kinds of traffic, as a designed experiment."""
