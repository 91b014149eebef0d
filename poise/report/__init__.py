"""Results of a run: metrics, tables, an HTML page, a timeline and rows. All are pure functions of a `Run`."""
