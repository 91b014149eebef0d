"""Custom resource definitions of other projects, from a folder that holds them, and the errors that they find.

POISE_CRDS names the folder, as `example/prometheus-operator-crd` of a clone of prometheus-operator. Fields that a
definition lacks are errors here; Kubernetes itself would drop them without a word. Its rules in CEL are not evaluated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.cached import Unavailable

Schema = dict[str, Any]

TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
}  # fmt: skip


def definition(group: str, plural: str, version: str = "v1") -> Schema:
    """The schema of a kind; Unavailable where no folder has it."""
    folder = os.environ.get("POISE_CRDS", "")
    file = Path(folder) / f"{group}_{plural}.yaml"
    if not folder or not file.is_file():
        raise Unavailable(f"no {file.name}: set POISE_CRDS to a folder with it")
    versions = YAML(typ="safe").load(file)["spec"]["versions"]
    (found,) = (each for each in versions if each["name"] == version)
    return dict(found["schema"]["openAPIV3Schema"])


def faults(schema: Schema, value: Any, where: str = "") -> Iterator[str]:
    """All errors in a value."""
    if schema.get("x-kubernetes-int-or-string"):
        if type(value) not in (int, str):
            yield f"{where}: {value!r} is neither a whole number nor a string"
        return
    kind = schema.get("type", "")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{where}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if kind == "object" and where != ".metadata":
        yield from _fields(schema, value, where)
    elif kind == "array":
        yield from _bounds(schema, "Items", len(value), where)
        for number, each in enumerate(value):
            yield from faults(schema["items"], each, f"{where}[{number}]")
    elif kind == "string":
        yield from _bounds(schema, "Length", len(value), where)
        pattern = schema.get("pattern", "")
        if not re.search(pattern.replace("(?i)", ""), value, re.IGNORECASE if "(?i)" in pattern else 0):
            yield f"{where}: {value!r} does not match {pattern}"
    elif kind in ("integer", "number"):
        yield from _bounds(schema, "imum", value, where)


def _fields(schema: Schema, value: dict[str, Any], where: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name}: is missing"
    for name, each in value.items():
        if name in known or isinstance(others, dict):
            yield from faults(known.get(name, others), each, f"{where}.{name}")
        elif not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{where}.{name}: is not a field"


def _bounds(schema: Schema, what: str, size: float, where: str) -> Iterator[str]:
    """The errors of a size by minItems and maxItems, and so on."""
    least, most = schema.get(f"min{what}", size), schema.get(f"max{what}", size)
    if not least <= size <= most:
        yield f"{where}: {size} is not within {least} to {most}"
