"""Queue orders: who among the waiting requests of an engine is admitted next."""
