"""Named tuples where they are made at every request: the class itself is called through Python code."""

from __future__ import annotations

from typing import Final

made: Final = tuple.__new__
"""`made(Finished, (at, request, tokens))` is `Finished(at, request, tokens)` in a third of the time."""
