"""Experiments that several claims share, each named by data."""
