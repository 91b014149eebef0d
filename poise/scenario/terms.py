"""The terms of a cost as a scenario names them: `NAME` or `{NAME: {parameter: value}}`, in the file of that name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from poise.core.errors import UserError
from poise.cost import terms
from poise.cost.term import Over, Term
from poise.scenario.explain import unknown
from poise.scenario.policy_spec import Choice


def names() -> list[str]:
    """The known terms."""
    return sorted(module.name for module in pkgutil.iter_modules(terms.__path__))


def find(name: str) -> type[Term | Over]:
    """The class of the term `name`: the one in its file with `around` or `over`; UserError if there is none."""
    if name not in names():
        raise UserError(unknown(name, names()))
    module = importlib.import_module(f"{terms.__name__}.{name}")
    (found,) = (
        kind
        for kind in vars(module).values()
        if (hasattr(kind, "around") or hasattr(kind, "over")) and kind.__module__ == module.__name__
    )
    kind: type[Term | Over] = found
    return kind


def build(chosen: Choice) -> Term | Over:
    """A term with its parameters, which are checked against its class; UserError for those it does not take."""
    name, given = chosen
    kind = find(name)
    defaults = _defaults(kind)
    for parameter, value in given.items():
        if parameter not in defaults:
            raise UserError(f"{name}.{parameter}: {unknown(parameter, list(defaults))}")
        if not _alike(value, defaults[parameter]):
            raise UserError(f"{name}.{parameter}: {value!r}; give {_like(defaults[parameter])}")
    try:
        return kind(**given)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def resolved(chosen: Choice) -> dict[str, dict[str, Any]]:
    """A choice with the defaults of its parameters written out."""
    name, given = chosen
    return {name: {**_defaults(find(name)), **given}}


def _defaults(kind: type[Term | Over]) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(kind).parameters.items()}


def _like(default: Any) -> str:
    return "a number, or nothing" if default is None else f"a value like {default!r}"


def _alike(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of its default; where that is None, of a number that the term finds itself."""
    if default is None and value is not None:
        default = 0.0
    if isinstance(default, float) and isinstance(value, int):
        return not isinstance(value, bool)
    return type(value) is type(default)
