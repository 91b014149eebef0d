"""The search for a fleet: which devices, how many, in which layout, behind which router, for a traffic and its SLO."""
