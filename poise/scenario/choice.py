"""A policy as a scenario names it: `NAME`, `{NAME: {parameter: value}}` or `package.module:Class`."""

from __future__ import annotations

from typing import Any

Choice = tuple[str, dict[str, Any]]
"""A policy's name and its parameters."""


def choice(value: Any) -> Choice:
    """Name and parameters; ValueError when `value` has another shape."""
    if isinstance(value, str) and value.strip():
        return value, {}
    if isinstance(value, dict) and len(value) == 1:
        name, parameters = next(iter(value.items()))
        if parameters is None or isinstance(parameters, dict):
            return name, dict(parameters or {})
    raise ValueError(f"{value!r} names no policy; give NAME or {{NAME: {{parameter: value}}}}")


def choices(value: Any) -> list[Choice | None]:
    """The policies of a list, or the one that stands without a list; null is None, the slot's default."""
    if isinstance(value, list):
        if not value:
            raise ValueError("the list is empty; give at least one NAME")
        return [None if each is None else choice(each) for each in value]
    return [None if value is None else choice(value)]


def check_choices(value: Any) -> Any:
    """`value` itself when it is null or names a policy, or a list of different ones."""
    chosen = choices(value)
    for each in chosen:
        if chosen.count(each) > 1:
            said = "null" if each is None else f"{each[0]} with {each[1]}" if each[1] else each[0]
            raise ValueError(f"{said} stands twice in the list; keep it once, or give it other parameters")
    return value


def check_routers(value: Any) -> Any:
    """The same for routers, which are never null."""
    if None in choices(check_choices(value)):
        raise ValueError("null names no router; give NAME or {NAME: {parameter: value}}")
    return value


def labels(chosen: list[Choice | None]) -> list[str]:
    """A distinct short name for each: the policy's own, with its parameters where a name comes twice."""
    names = [each[0].rpartition(":")[2] if each else "default" for each in chosen]
    told = []
    for name, each in zip(names, chosen, strict=True):
        said = ", ".join(f"{key}={value}" for key, value in (each[1] if each else {}).items())
        told.append(f"{name}({said})" if said and names.count(name) > 1 else name)
    return [name if told.count(name) == 1 else f"{name} #{at + 1}" for at, name in enumerate(told)]
