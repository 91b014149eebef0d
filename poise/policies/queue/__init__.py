"""Queue orders: which waiting request of an engine is admitted next."""
