"""A tournament: many choices in all their combinations under many conditions, as a designed experiment."""
