"""Terms: what a system changes about the cost of a step, each around any estimator, in the file of its name."""
