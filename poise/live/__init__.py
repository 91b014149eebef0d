"""The world with a real clock: a gateway in front of engines, and an engine to try it on."""
