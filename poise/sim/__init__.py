"""The world with virtual time."""
