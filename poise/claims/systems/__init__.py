"""One file for each system: a `CLAIM`, and `measure(bench)`, which runs its experiment and returns what came of it."""
