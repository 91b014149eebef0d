"""Shapes of plain data, as API definitions state them: finds each error of a value and its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Shape(Protocol):
    """The rule for a value."""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """The errors in `value`, which is at `where`."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string. pattern: which must be found in it.  choices: all allowed values, separated by spaces."""

    pattern: str = ""
    choices: str = ""
    least: int = 0
    most: int = 1 << 20

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, str):
            yield f"{where}: {value!r} is not a string"
        elif not self.least <= len(value) <= self.most:
            yield f"{where}: has {len(value)} characters; {self.least} to {self.most} are allowed"
        elif self.choices and value not in self.choices.split():
            yield f"{where}: {value!r} is not one of {', '.join(self.choices.split())}"
        elif not re.search(self.pattern, value):
            yield f"{where}: {value!r} does not match {self.pattern}"


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer within bounds, both allowed."""

    low: int = 0
    high: int = (1 << 31) - 1

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{where}: {value!r} is not an integer"
        elif not self.low <= value <= self.high:
            yield f"{where}: {value} is not within {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, bool):
            yield f"{where}: {value!r} is not a boolean"


@dataclass(frozen=True, slots=True)
class Either:
    """An integer or a string."""

    whole: Whole
    text: Text

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        yield from (self.text if isinstance(value, str) else self.whole).faults(value, where)


@dataclass(frozen=True, slots=True)
class Many:
    """A list. least, most: of its items.  key: the field by which items of one list differ; empty for none."""

    item: Shape
    least: int = 0
    most: int = 1 << 20
    key: str = ""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, list):
            yield f"{where}: {value!r} is not a list"
            return
        if not self.least <= len(value) <= self.most:
            yield f"{where}: has {len(value)} items; {self.least} to {self.most} are allowed"
        for at, each in enumerate(value):
            yield from self.item.faults(each, f"{where}[{at}]")
        if self.key:
            keys = [each.get(self.key) for each in value if isinstance(each, dict)]
            yield from (
                f"{where}: {self.key} {each!r} is there twice" for each in {k for k in keys if keys.count(k) > 1}
            )


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping of free keys, which match a shape of their own."""

    name: Text
    value: Shape
    least: int = 0

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is not a mapping"
            return
        if len(value) < self.least:
            yield f"{where}: is empty"
        for name, each in value.items():
            yield from self.name.faults(name, f"{where}, key {name!r}")
            yield from self.value.faults(each, f"{where}.{name}")


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping of known fields. needed: the required ones, separated by spaces."""

    fields: Mapping[str, Shape]
    needed: str = ""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is not a mapping"
            return
        yield from (f"{where}.{name}: is missing" for name in self.needed.split() if name not in value)
        for name, each in value.items():
            if name in self.fields:
                yield from self.fields[name].faults(each, f"{where}.{name}")
            else:
                yield f"{where}.{name}: is not a field; there are {', '.join(self.fields)}"
