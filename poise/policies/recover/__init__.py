"""Recovery of the requests of a replica that is lost or drained; one file for each policy."""
