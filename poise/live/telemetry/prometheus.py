"""Parses Prometheus text (and OpenMetrics) of an engine: the samples of the wanted families, and no others.

Tolerant: comments, timestamps, exemplars, NaN, infinities and unknown families pass; where a wanted line is malformed
the answer is an error text, never an exception.
Format: Prometheus documentation, "Exposition formats"; OpenMetrics 1.0, section 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """One line: its labels and its value."""

    labels: dict[str, str]
    value: float


Families = dict[str, list[Sample]]
"""For each family found, its samples in the order of the page."""

_REST = re.compile(r'(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]*([^\s#]+)(?:\s|$)')
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


class Reader:
    """Reads pages for some families of one engine.

    engine: what all its names begin with, before a colon (`vllm:`), or the underscore that OpenMetrics makes of it.
    names: of samples, without that beginning; those of counters end in `_total`.
    """

    __slots__ = ("_any", "_lines")

    def __init__(self, engine: str, names: Sequence[str]) -> None:
        either = "|".join(re.escape(name) for name in names)
        self._any = re.compile(rf"^{engine}[:_]|\n{engine}[:_]".encode())
        self._lines = re.compile(rf"\n{engine}[:_]({either})(?=[{{ \t])([^\n]*)".encode())

    def knows(self, page: bytes) -> bool:
        """Whether the page has any name of this engine."""
        return self._any.search(page) is not None

    def read(self, page: bytes) -> Families | str:
        """The samples of the wanted families, by their names without the engine's, or what is wrong with the page."""
        found: Families = {}
        for name, rest in self._lines.findall(b"\n" + page):
            sample = _sample(rest)
            if sample is None:
                return f"this line makes no sense: {(name + rest)[:120].decode(errors='replace')}"
            found.setdefault(name.decode(), []).append(sample)
        return found


def _sample(rest: bytes) -> Sample | None:
    """The part after the name: labels in braces, a value, perhaps a time and an exemplar."""
    try:
        found = _REST.match(rest.decode().strip())
        if found is None:
            return None
        labels = _labels(found[1] or "")
        return None if labels is None else Sample(labels, float(found[2]))
    except ValueError:
        return None


def _labels(text: str) -> dict[str, str] | None:
    pairs: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _LABEL.match(text, place)
        if not found:
            return None if text[place:].strip() else pairs
        name, value = found.groups()
        pairs[name] = _ESCAPED.sub(_unescape, value) if "\\" in value else value
        place = found.end()
    return pairs


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
