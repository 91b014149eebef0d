"""Poise and the simulators measured beside it, one file each; see ../README.md."""
