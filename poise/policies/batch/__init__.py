"""Batchers: which work shares the next step of a lane."""
