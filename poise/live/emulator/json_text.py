"""A JSON text that a schema allows: the least that is valid, with a hole for words where a free string is.

Understood: type, properties, required, items, prefixItems, minItems, enum, const, bounds of numbers and of lengths,
multipleOf, common formats, anyOf, oneOf, allOf, and `$ref` within the schema. A `pattern` is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final, NamedTuple

HOLE: Final = "\0"
"""In place of the string that words will fill."""
_HOLE: Final = "\\u0000"
DEEP: Final = 3
"""Levels from which on only what is required is given."""
DEEPEST: Final = 40
FORMATS: Final = {
    "date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "duration": "P1D",
    "email": "a@example.org", "hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "uri": "https://example.org", "uuid": "0e984725-c51c-4bf4-9960-e1c80e27aba0",
}  # fmt: skip
ANY: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
"""The schema of JSON mode without a schema."""


class Text(NamedTuple):
    """A text around its hole, if it has one. least: characters that the hole must have."""

    before: str
    after: str = ""
    hole: bool = False
    least: int = 0


def json_text(schema: Any) -> Text:
    """The text of a value that the schema allows."""
    maker = _Maker(schema)
    text = json.dumps(maker.value(schema, 0))
    before, hole, after = text.partition(_HOLE)
    return Text(before, after, bool(hole), maker.least)


class _Maker:
    """Makes one value. least: characters that its hole must have."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._has_hole = False
        self.least = 0

    def value(self, schema: Any, depth: int) -> Any:
        """A value for a schema at a level."""
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return self._string({})
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        match _type(schema, depth):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer":
                return _number(schema, 1)
            case "number":
                return _number(schema, 0)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema)

    def _resolved(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """The schema with what it refers to; of several that it may be, the first, or at depth the shortest."""
        for _ in range(DEEPEST):
            if isinstance(schema.get("$ref"), str):
                schema = {**self._found(schema["$ref"]), **_without(schema, "$ref")}
            elif isinstance(schema.get("allOf"), list):
                joined = _without(schema, "allOf")
                for each in schema["allOf"]:
                    joined = _merged(joined, self._resolved(each, depth) if isinstance(each, Mapping) else {})
                schema = joined
            elif options := schema.get("anyOf") or schema.get("oneOf"):
                some = [each for each in options if isinstance(each, Mapping)] or [{}]
                one = min(some, key=lambda each: len(json.dumps(each))) if depth >= DEEP and _refers(some) else some[0]
                schema = {**_without(schema, "anyOf", "oneOf"), **one}
            else:
                break
        return schema

    def _found(self, reference: str) -> Mapping[str, Any]:
        """What a JSON pointer within the schema names."""
        place = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            key = name.replace("~1", "/").replace("~0", "~")
            place = place.get(key, {}) if isinstance(place, Mapping) else {}
        return place if isinstance(place, Mapping) else {}

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = [str(name) for name in schema.get("required") or ()]
        names = required if depth >= DEEP else [*known, *(name for name in required if name not in known)]
        return {name: self.value(known.get(name, {}), depth + 1) for name in names}

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first = schema.get("prefixItems") or []
        count = max(int(schema.get("minItems") or 0), 0 if depth >= DEEP else 1, len(first))
        count = min(count, int(schema.get("maxItems", count)))
        items = schema.get("items", {})
        return [self.value(first[at] if at < len(first) else items, depth + 1) for at in range(count)]

    def _string(self, schema: Mapping[str, Any]) -> str:
        known = FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known
        least, most = int(schema.get("minLength") or 0), schema.get("maxLength")
        if most is not None or self._has_hole:
            return "words"[: most if most is None else int(most)].ljust(least, "s")
        self._has_hole = True
        self.least = least
        return HOLE


def _type(schema: Mapping[str, Any], depth: int) -> str:
    """The type of the value: stated, or the one that other keywords are about."""
    stated = schema.get("type")
    if isinstance(stated, list):
        stated = "null" if "null" in stated and depth >= DEEP else next(iter(stated), "string")
    if isinstance(stated, str):
        return stated
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "number" if _BOUNDS & schema.keys() else "string"


_BOUNDS: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))


def _number(schema: Mapping[str, Any], grain: int) -> float:
    """1, or what is nearest within the bounds; a whole number where `grain` is 1."""
    step = float(schema.get("multipleOf") or grain)
    low, high = (schema.get(name) for name in ("minimum", "maximum"))
    above, below = (schema.get(name) for name in ("exclusiveMinimum", "exclusiveMaximum"))
    if not step:
        return _real(low if above is None else above, high if below is None else below)
    lows = [] if low is None else [ceil(low / step)]
    lows += [] if above is None else [floor(above / step) + 1]
    highs = [] if high is None else [floor(high / step)]
    highs += [] if below is None else [ceil(below / step) - 1]
    value = min([max([ceil(1 / step), *lows]), *highs]) * step
    return int(value) if value == int(value) else value


def _real(low: float | None, high: float | None) -> float:
    """1, or a number strictly between the bounds."""
    if low is not None and high is not None:
        return (low + high) / 2
    if low is not None:
        return 1 if low < 1 else low + 1
    return 1 if high is None or high > 1 else high - 1


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both schemas at once: properties and what is required add up."""
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = [*one["required"], *(each for each in other["required"] if each not in one["required"])]
    return both


def _refers(some: list[Mapping[str, Any]]) -> bool:
    return any("$ref" in each for each in some)


def _without(schema: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in schema.items() if name not in names}
