"""A claim for each system, `NAME.toml`; beside it `NAME.py` where it measures what no shared experiment does."""
