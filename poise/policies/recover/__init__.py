"""What becomes of the requests of a replica that goes; one file for each policy."""
