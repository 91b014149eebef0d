"""The terms of a cost as a scenario names them: `NAME` or `{NAME: {parameter: value}}`, in the file of that name."""

from __future__ import annotations

import inspect
from typing import Any, Final

from poise.core.errors import UserError
from poise.core.plugin import Plugins
from poise.cost.term import Over, Term
from poise.scenario.policy_spec import Choice

FILES: Final = Plugins("poise.cost.terms", "term", "")


def names() -> list[str]:
    """The known terms."""
    return FILES.names()


def find(name: str) -> type[Term | Over]:
    """The class of the term `name`: the one in its file with `around` or `over`; UserError if there is none."""
    if name not in names():
        raise FILES.unknown(name, names())
    kinds = FILES.members(name).values()
    (found,) = (kind for kind in kinds if hasattr(kind, "around") or hasattr(kind, "over"))
    kind: type[Term | Over] = found
    return kind


def build(chosen: Choice) -> Term | Over:
    """A term with its parameters, which are checked against its class; UserError for those it does not take."""
    name, given = chosen
    kind = find(name)
    FILES.check(name, kind, given)
    try:
        return kind(**given)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def resolved(chosen: Choice) -> dict[str, dict[str, Any]]:
    """A choice with the defaults of its parameters written out."""
    name, given = chosen
    return {name: {key: each.default for key, each in inspect.signature(find(name)).parameters.items()} | given}
