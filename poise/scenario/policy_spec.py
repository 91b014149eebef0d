"""A policy as a scenario names it: `NAME`, `{NAME: {parameter: value}}` or `package.module:Class`.

Admissions narrow one another, so that one choice may be several of them: `{all: [NAME, …]}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Choice = tuple[str, dict[str, Any]]
"""A policy's name and its parameters; under the name `all` the policies that make one choice, in `of`."""

ALL = "all"


def choice(value: Any, what: str = "policy") -> Choice:
    """Name and parameters of a policy, or of `what` else; ValueError when `value` has another shape."""
    if isinstance(value, str) and value.strip():
        return value, {}
    if isinstance(value, dict) and len(value) == 1:
        name, parameters = next(iter(value.items()))
        if parameters is None or isinstance(parameters, dict):
            return name, dict(parameters or {})
    raise ValueError(f"{value!r} names no {what}; give NAME or {{NAME: {{parameter: value}}}}")


def admissions(value: Any) -> Choice:
    """A choice of admissions: one of them, or `{all: [NAME, …]}`."""
    if not (isinstance(value, dict) and list(value) == [ALL]):
        return choice(value)
    if not isinstance(value[ALL], list) or not value[ALL]:
        raise ValueError(
            f"all: {value[ALL]!r} is not a list of admissions; give one, as in {{all: [ceiling, saturation]}}"
        )
    if any(isinstance(each, dict) and ALL in each for each in value[ALL]):
        raise ValueError("all stands within all; name every admission in one list")
    members = [choice(each) for each in value[ALL]]
    for each in members:
        if members.count(each) > 1:
            raise ValueError(f"{each[0]} stands twice in all; keep it once, or give it other parameters")
    return ALL, {"of": members}


def members(chosen: Choice) -> list[Choice]:
    """The policies that make a choice."""
    name, parameters = chosen
    return parameters["of"] if name == ALL else [chosen]


def choices(value: Any, read: Callable[[Any], Choice] = choice) -> list[Choice | None]:
    """The policies of a list, or the one that stands without a list; null is None, the slot's default.

    read: how one is written: `choice`, or `admissions` in their slot.
    """
    if isinstance(value, list):
        if not value:
            raise ValueError("the list is empty; give at least one NAME")
        return [None if each is None else read(each) for each in value]
    return [None if value is None else read(value)]


def chosen_in(slot: str, value: Any) -> list[Choice | None]:
    """The choices of a slot."""
    return choices(value, admissions if slot == "admission" else choice)


def check_choices(value: Any, read: Callable[[Any], Choice] = choice) -> Any:
    """`value` itself when it is null or names a policy, or a list of different ones."""
    chosen = choices(value, read)
    for each in chosen:
        if chosen.count(each) > 1:
            text = "null" if each is None else _name(each, parameters=True)
            raise ValueError(f"{text} stands twice in the list; keep it once, or give it other parameters")
    return value


def check_admissions(value: Any) -> Any:
    """The same for admissions, of which several may hold at once."""
    return check_choices(value, admissions)


def check_routers(value: Any) -> Any:
    """The same for routers, which are never null."""
    if None in choices(check_choices(value)):
        raise ValueError("null names no router; give NAME or {NAME: {parameter: value}}")
    return value


def check_terms(value: Any) -> Any:
    """The same for the terms of a cost, of which there is at least one."""
    if None in choices(check_choices(value)):
        raise ValueError("null names no term; give NAME or {NAME: {parameter: value}}")
    return value


def labels(chosen: list[Choice | None]) -> list[str]:
    """A distinct short name for each: the policy's own, with its parameters where a name comes twice."""
    names = [_name(each) for each in chosen]
    short = [_name(each, names.count(name) > 1) for name, each in zip(names, chosen, strict=True)]
    return [name if short.count(name) == 1 else f"{name} #{at + 1}" for at, name in enumerate(short)]


def _name(chosen: Choice | None, parameters: bool = False) -> str:
    """The label of a choice, on request with its parameters."""
    if chosen is None:
        return "default"
    if chosen[0] == ALL:
        return " & ".join(_name(each, parameters) for each in members(chosen))
    name = chosen[0].rpartition(":")[2]
    text = ", ".join(f"{key}={value}" for key, value in chosen[1].items())
    return f"{name}({text})" if text and parameters else name
