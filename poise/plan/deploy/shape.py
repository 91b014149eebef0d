"""Shapes of plain data, as API definitions state them: what of a value is not as it must be, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Shape(Protocol):
    """What a value may be."""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """Every part of `value`, which stands at `where`, that is not allowed."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string. pattern: which must be found in it.  choices: all that it may be, with spaces between."""

    pattern: str = ""
    choices: str = ""
    least: int = 0
    most: int = 1 << 20

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, str):
            yield f"{where}: {value!r} is no string"
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
            yield f"{where}: {value!r} is no integer"
        elif not self.low <= value <= self.high:
            yield f"{where}: {value} is not within {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, bool):
            yield f"{where}: {value!r} is no boolean"


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
            yield f"{where}: {value!r} is no list"
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
            yield f"{where}: {value!r} is no mapping"
            return
        if len(value) < self.least:
            yield f"{where}: is empty"
        for name, each in value.items():
            yield from self.name.faults(name, f"{where}, key {name!r}")
            yield from self.value.faults(each, f"{where}.{name}")


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping of known fields. needed: those that must be there, with spaces between."""

    fields: Mapping[str, Shape]
    needed: str = ""

    def faults(self, value: Any, where: str) -> Iterator[str]:
        """See `Shape`."""
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is no mapping"
            return
        yield from (f"{where}.{name}: is missing" for name in self.needed.split() if name not in value)
        for name, each in value.items():
            if name in self.fields:
                yield from self.fields[name].faults(each, f"{where}.{name}")
            else:
                yield f"{where}.{name}: is no field; there are {', '.join(self.fields)}"
