"""Training: schedules on the command line."""
