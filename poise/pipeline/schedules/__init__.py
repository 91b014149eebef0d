"""Schedules, one file each: a function of the file's name that makes a `Schedule` from stages and microbatches."""
