"""Admissions: which requests may be sent now and to which replicas; others wait or are rejected. One file each."""
