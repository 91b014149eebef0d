"""Validates Kubernetes manifests: the shape of each object (`kinds.yaml`), and whether its references resolve."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from poise.core.errors import UserError

Object = dict[str, Any]

_TYPES: Final[dict[str, tuple[Any, str, str]]] = {
    "text": (str, "a string", "characters"), "whole": (int, "an integer", ""), "flag": (bool, "a boolean", ""),
    "list": (list, "a list", "items"), "table": (dict, "a mapping", "entries"), "fields": (dict, "a mapping", ""),
}  # fmt: skip
"""The type of a value by the sort of its shape, and names of the type and of what is counted."""


def check(text: str) -> None:
    """Raise UserError, with all that is wrong in YAML documents, by document and field."""
    try:
        documents = list(YAML(typ="safe").load_all(text))
    except YAMLError as error:
        raise UserError(f"manifests are no YAML: {' '.join(str(error).split())}") from None
    check_objects(documents)


def check_objects(documents: Sequence[Any]) -> None:
    """The same of plain data."""
    found = list(faults(documents))
    if found:
        raise UserError("; ".join(found))


def faults(documents: Sequence[Any]) -> Iterator[str]:
    """The errors in objects: unknown or missing fields, types, bounds, and references that do not resolve."""
    sound = []
    for number, each in enumerate(documents, 1):
        found = list(_object(each, number))
        yield from found
        if not found:
            sound.append(each)
    yield from _twice(sound)
    for each in sound:
        yield from _selected(each)
        yield from _mounted(each)


@cache
def _known() -> Object:
    return dict(YAML(typ="safe").load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8")))


def _object(each: Any, number: int) -> Iterator[str]:
    where = f"document {number}"
    if not isinstance(each, dict):
        yield f"{where}: is not a mapping"
        return
    version, kind = str(each.get("apiVersion")), str(each.get("kind"))
    where = f"{where} ({kind})"
    shape = _known()["kinds"].get(f"{version} {kind}")
    if shape is None:
        yield f"{where}: {version} {kind} is not a known kind"
        return
    yield from _faults({"apiVersion": "any", "kind": "any", "metadata!": "metadata", **shape}, each, where)
    metadata = each.get("metadata")
    if kind in _known()["names"] and isinstance(metadata, dict) and "name" in metadata:
        yield from _faults(_known()["names"][kind], metadata["name"], f"{where}.metadata.name")


def _faults(shape: Any, value: Any, where: str) -> Iterator[str]:
    """The errors in `value`, which is at `where`, by a shape as `kinds.yaml` has them."""
    rule = _rule(shape, value)
    sort = rule.get("is", "fields")
    type_, noun, unit = _TYPES[sort]
    if not isinstance(value, type_) or (sort == "whole" and isinstance(value, bool)):
        yield f"{where}: {value!r} is not {noun}"
        return
    least, most = rule.get("least", 0), rule.get("most", (1 << 31) - 1)
    if sort == "whole" and not least <= value <= most:
        yield f"{where}: {value} is not within {least} to {most}"
    if unit and not least <= len(value) <= most:
        yield f"{where}: has {len(value)} {unit}; {least} to {most} are allowed"
    elif sort == "text" and value not in (choices := rule.get("choices", [value])):
        yield f"{where}: {value!r} is not one of {', '.join(choices)}"
    elif sort == "text" and not re.search(pattern := rule.get("pattern", ""), value):
        yield f"{where}: {value!r} does not match {pattern}"
    if sort in _PARTS:
        yield from _PARTS[sort](rule, value, where)


def _rule(shape: Any, value: Any) -> Object:
    """A shape by its name: one of those in the file, one of several words, or of `A or B` the one for this value."""
    if not isinstance(shape, str):
        return dict(shape)
    if " | " in shape:
        return {"is": "text", "choices": shape.split(" | ")}
    whole, _, text = shape.partition(" or ")
    return dict(_known()["shapes"][text if text and isinstance(value, str) else whole])


def _items(rule: Object, value: list[Any], where: str) -> Iterator[str]:
    for at, each in enumerate(value):
        yield from _faults(rule["item"], each, f"{where}[{at}]")
    key = rule.get("key")
    keys = [each.get(key) for each in value if isinstance(each, dict)] if key else []
    yield from (f"{where}: {key} {each!r} is there twice" for each in {k for k in keys if keys.count(k) > 1})


def _entries(rule: Object, value: Object, where: str) -> Iterator[str]:
    for name, each in value.items():
        yield from _faults(rule["name"], name, f"{where}, key {name!r}")
        yield from _faults(rule["value"], each, f"{where}.{name}")


def _fields(rule: Object, value: Object, where: str) -> Iterator[str]:
    shapes = {name.rstrip("!"): shape for name, shape in rule.items()}
    needed = [name.rstrip("!") for name in rule if name.endswith("!")]
    yield from (f"{where}.{name}: is missing" for name in needed if name not in value)
    for name, each in value.items():
        if name in shapes:
            yield from _faults(shapes[name], each, f"{where}.{name}")
        else:
            yield f"{where}.{name}: is not a field; there are {', '.join(shapes)}"


_PARTS: Final[dict[str, Callable[..., Iterator[str]]]] = {"list": _items, "table": _entries, "fields": _fields}


def _twice(documents: Sequence[Object]) -> Iterator[str]:
    seen: set[tuple[str, str, str]] = set()
    for each in documents:
        key = (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        if key in seen:
            yield f"{key[0]} {key[2]}: is there twice"
        seen.add(key)


def _selected(each: Object) -> Iterator[str]:
    """A workload must select its own pods: the API server refuses another one."""
    spec = each.get("spec", {})
    if "template" not in spec:
        return
    wanted = spec["selector"].get("matchLabels", {})
    if not wanted or not wanted.items() <= spec["template"].get("metadata", {}).get("labels", {}).items():
        yield f"{each['kind']} {each['metadata']['name']}: its selector does not match its own pods' labels"


def _mounted(each: Object) -> Iterator[str]:
    """Every mount is of a volume, and every probe of a port, that the pod has."""
    for pod in pods(each):
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            name = f"{each['kind']} {each['metadata']['name']}, container {container['name']}"
            for mount in container.get("volumeMounts", ()):
                if mount["name"] not in volumes:
                    yield f"{name}: mounts {mount['name']!r}, and the pod has no such volume"
            ports = {port.get("name") for port in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if isinstance(port, str) and port not in ports:
                    yield f"{name}: {probe} asks port {port!r}, and the container has no such port"


def pods(each: Object) -> list[Object]:
    """The specs of the pods that an object makes: one of a workload, the leader's and the workers' of a group."""
    spec = each.get("spec", {})
    group = spec.get("leaderWorkerTemplate", {})
    templates = [spec.get("template"), group.get("leaderTemplate"), group.get("workerTemplate")]
    return [template["spec"] for template in templates if template]
