"""Experiments that several claims share, each told by data."""
