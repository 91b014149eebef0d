"""What a run came to: figures, tables, a page, a timeline and rows; all pure functions of a `Run`."""
