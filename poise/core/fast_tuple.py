"""Fast construction of named tuples: calling the class itself goes through Python code."""

from __future__ import annotations

from typing import Final

made: Final = tuple.__new__
"""`made(Finished, (at, request, tokens))` is `Finished(at, request, tokens)` in a third of the time."""
