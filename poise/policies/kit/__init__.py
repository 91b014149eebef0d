"""Data structures and models shared by several policies."""
