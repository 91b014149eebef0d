"""How long a test waits for what must come."""

from typing import Final

PATIENCE_S: Final = 120
"""Only what hangs takes so long, however busy the machine: a test waits for a condition, and this bounds the wait."""
