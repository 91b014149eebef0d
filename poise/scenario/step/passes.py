"""The passes of a step file: lists of names with parameters, as edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Literal

from poise.core.errors import ScenarioError
from poise.pipeline.costs import Costs
from poise.scenario.place import Path, Places
from poise.scenario.policy_spec import choice
from poise.scenario.step.world import How
from poise.sim.step.edits import EDITS, OF_THE_LAYOUT, Edit, check_order
from poise.sim.step.linked import Linked

Links = Literal["none", "stages", "layers"]

NO_PASSES = "no passes"
"""The label of an empty list."""
_KINDS = {"float": "a number", "bool": "true or false", "Collection[int]": "a list of ranks, as in [1, 2]"}


def hows(links: Links, lists: Sequence[Sequence[Any]], costs: Costs | None, places: Places) -> dict[str, How]:
    """How steps are run, by lists of passes; ScenarioError for a list that cannot be, or stands twice."""
    if links == "none":
        if any(lists):
            raise places.error(("passes",), "are of the step as a Program, and links is none; give links: stages")
        return {NO_PASSES: How(None, costs)}
    found: dict[str, How] = {}
    for at, each in enumerate(lists):
        path = ("passes", at) if len(lists) > 1 else ("passes",)
        if label(each) in found:
            raise places.error(path, f"{label(each)} stands twice; keep it once, or give it other parameters")
        found[label(each)] = How(Linked(links, edits_of(each, places, path)), costs)
    return found


def edits_of(given: Sequence[Any], places: Places, path: Path) -> tuple[Edit, ...]:
    """One list of passes; ScenarioError with the place of the first mistake."""
    found = []
    for at, each in enumerate(given):
        name, parameters = choice(each, "pass")
        try:
            found.append(_edit(name, parameters))
        except ScenarioError as error:
            raise places.error((*path, at), str(error)) from None
    try:
        check_order([choice(each)[0] for each in given])
    except ScenarioError as error:
        raise places.error(path, str(error)) from None
    return tuple(found)


def label(given: Sequence[Any]) -> str:
    """A list of passes in one line."""
    return ", ".join(_written(*choice(each)) for each in given) or NO_PASSES


def _written(name: str, parameters: Mapping[str, Any]) -> str:
    text = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return f"{name}({text})" if text else name


def _edit(name: str, parameters: Mapping[str, Any]) -> Edit:
    if name in OF_THE_LAYOUT:
        raise ScenarioError(f"{name} cannot be given: {OF_THE_LAYOUT[name]}; leave it")
    if name not in EDITS:
        raise ScenarioError(f"{name!r} is not a pass of a step; {_near(name, list(EDITS))}")
    kind = EDITS[name]
    known = {each.name: str(each.type) for each in fields(kind)}
    for parameter, value in parameters.items():
        if parameter not in known:
            raise ScenarioError(f"{name} has no parameter {parameter!r}; {_near(parameter, list(known))}")
        if not _is(value, known[parameter]):
            raise ScenarioError(f"{name}.{parameter}: {value!r} is not {_KINDS[known[parameter]]}; give one")
    given: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in parameters.items()}
    try:
        return kind(**given)
    except ScenarioError as error:
        raise ScenarioError(f"{name}.{error}") from None


def _is(value: Any, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}known are {', '.join(known)}"
