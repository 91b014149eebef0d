"""Admissions: who may be sent now, and where to; who waits and who is turned away. One file each."""
