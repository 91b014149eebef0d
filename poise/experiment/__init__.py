"""Experiments on any world: cases × settings × seeds, in processes or on a cluster, kept in a folder, and judged."""
