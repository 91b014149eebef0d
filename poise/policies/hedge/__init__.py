"""Hedgers: which requests get a copy at a second replica. One file each."""
