"""Tests of `poise.intervals`."""
