"""Tables of closed forms and models: what a function of the package gives at some points, beside published values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import PointsSection
from poise.claims.experiments.setting import put
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.plugin import nearest
from poise.core.spec import Device
from poise.cost.term import Over, Term
from poise.cost.training.job import shape
from poise.pipeline.costs import Costs

PAPER = "paper"
"""The figure that stands for the published values."""

DRAWN = "seed"
"""The parameter of a function that draws: it is called for every seed of the claim."""

NAMED: Mapping[type, Callable[[str], Any]] = {Device: device, Model: model}
"""Descriptions that a name of the catalogue stands for."""

MADE: Mapping[type, Callable[..., Any]] = {Costs: Costs.of, Model: shape}
"""Functions that make a description from a mapping of their arguments, in place of its fields."""


def function(section: PointsSection) -> Callable[..., Any]:
    """What a section calls; UserError where that is no function or class of the package."""
    path, _, name = section.call.rpartition(".")
    if path.startswith("poise."):
        try:
            found = getattr(import_module(path), name, None)
        except ModuleNotFoundError:
            found = None
        if callable(found):
            return cast(Callable[..., Any], found)
    raise UserError(
        f"call: {section.call!r} is no function of the package; give one as in poise.cost.intensity.decode_s"
    )


def arguments(section: PointsSection, label: str, place: float) -> dict[str, Any]:
    """The arguments of a call, made as the function's annotations say; UserError for one that it does not take."""
    call, data = function(section), cast(dict[str, Any], {})
    for path, value in {**section.changes(place), **section.lines.get(label, {})}.items():
        put(data, path, deepcopy(value))
    hints = get_type_hints(call.__init__ if inspect.isclass(call) else call)
    known = list(inspect.signature(call).parameters)
    for each in data:
        if each not in known:
            raise UserError(f"{each!r} is no argument of {section.call}; {nearest(each, known)}")
    return {name: made(hints.get(name), value) for name, value in data.items()}


def made(kind: Any, value: Any) -> Any:
    """A value of a kind from plain data: a device or a model by name or {like = NAME, …}, a model by its shape, a term
    of a cost by name, any other description from a mapping of its fields, and numbers as whole as they are to be."""
    options = [each for each in get_args(kind) if each is not NoneType]
    if {Term, Over} & {kind, *options}:
        return _term(value)
    if get_origin(kind) is None and isinstance(kind, type):
        return _described(kind, value)
    if get_origin(kind) in (Union, UnionType):
        return made(options[0], value) if len(options) == 1 else value
    return tuple(made(options[0], each) for each in value) if isinstance(value, list) and options else value


def _described(kind: type, value: Any) -> Any:
    named = NAMED.get(kind)
    if named and isinstance(value, str):
        return named(value)
    if isinstance(value, Mapping):
        by = kind if "like" in value else MADE.get(kind, kind)
        hints = get_type_hints(by)
        given = {name: made(hints.get(name), each) for name, each in value.items() if name != "like"}
        return replace(named(value["like"]), **given) if named and by is kind else by(**given)
    return kind(value) if kind in (int, float) else value


def _term(value: Any) -> Any:
    from poise.scenario import terms

    (name, given), *_ = [(value, {})] if isinstance(value, str) else value.items()
    return terms.build((name, given))


@dataclass(frozen=True, slots=True)
class Tabled:
    """What a function gives by label and place: a value for each seed, or one where it draws nothing."""

    section: PointsSection
    found: Mapping[tuple[str, float], Sequence[Any]]

    @property
    def labels(self) -> Sequence[str]:
        """The lines."""
        return list(self.section.lines) or [""]

    @property
    def places(self) -> Sequence[float]:
        """The axis."""
        return self.section.at

    def seeds(self, label: str, place: float, path: str) -> list[float]:
        """A figure of each seed: an attribute of what the function gave or a method without arguments, `value` for a
        number itself, `paper` for what is published; UserError for one that there is not."""
        if path == PAPER:
            return [self._published(place)]
        return [_figure(each, path) for each in self.found[label, place]]

    def _published(self, place: float) -> float:
        if not self.section.paper:
            raise UserError(f"{self.section.call} has no published values beside it; give paper = […]")
        return self.section.paper[self.section.at.index(place)]


def _figure(found: Any, path: str) -> float:
    for name in path.split(".") if path not in ("", "value") else ():
        if not hasattr(found, name):
            raise UserError(f"{path} is no figure of {type(found).__name__}; give one of its attributes, or value")
        found = getattr(found, name)
        found = found() if callable(found) else found
    return float(found)


def tabled(section: PointsSection, bench: Bench) -> Tabled:
    """Call the function at every place of every line, with every seed where it draws."""
    call = function(section)
    known = inspect.signature(call).parameters
    seeds = range(bench.seeds()) if DRAWN in known else [None]
    found = {}
    for label in list(section.lines) or [""]:
        for place in section.at:
            given = arguments(section, label, place)
            given |= {name: bench.requests(given[name]) for name in section.shorter if name in given}
            found[label, place] = [call(**given, **({} if seed is None else {DRAWN: seed})) for seed in seeds]
    return Tabled(section, found)
