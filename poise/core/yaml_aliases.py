"""The size of a tree with shared parts, as YAML's aliases make them, when it is written out."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from poise.core.errors import UserError

MOST_VALUES = 100_000
"""A file may hold as many values once its aliases are written out, or as many as it has characters if that is more."""


def refuse_explosion(tree: Any, text: str, name: str) -> None:
    """UserError if the aliases in `text`, the file `name` whose values `tree` holds, write out to far too many values.

    Ten lines, each a list of nine aliases of the line before, are a billion values. Without aliases no file is refused:
    a value takes a character at least.
    """
    most = max(MOST_VALUES, len(text))
    values = written_out(tree)
    if values > most:
        many = "values without end" if values == inf else f"{values:,} values"
        raise UserError(
            f"{name}: its aliases (*name) write out to {many}; at most {most:,} may be, so repeat less through them"
        )


def written_out(tree: Any) -> float:
    """Values in `tree`, a shared one counted in each of its places; infinite where a value holds itself."""
    return _count(tree, {})


def _count(value: Any, counts: dict[int, float]) -> float:
    if isinstance(value, Mapping):
        inner: Any = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return 1
    if id(value) not in counts:
        counts[id(value)] = inf  # while it is being counted: whoever meets it again inside holds itself
        counts[id(value)] = 1 + sum(_count(each, counts) for each in inner)
    return counts[id(value)]
