"""A routing decision as a dict, for the admin page and `/decisions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from poise.core.units import SECOND
from poise.live.admin.decisions import Decision, Reasons
from poise.live.admin.merge import Json

ENGINES: Final = 8
"""Engines listed for one decision: the chosen, the shadow's, and those with most cached."""


def as_dict(decision: Decision, models: Sequence[str], began: int) -> Json:
    """One decision as a dict; `models` are names by number, `began` is when instants begin."""
    fields: Json = {
        "number": decision.number,
        "at": round((decision.at - began) / SECOND, 3),
        "request": decision.request,
        "tenant": decision.tenant,
        "model": models[decision.model] if 0 <= decision.model < len(models) else "",
        "prompt_tokens": decision.prompt_tokens,
        "waited_s": round(decision.waited / SECOND, 3),
        "outcome": decision.outcome,
    }
    fields |= {name: getattr(decision, name) for name in ("engine", "decode", "reason") if getattr(decision, name)}
    if decision.grounds is not None:
        fields["candidates"] = len(decision.grounds.slots)
        fields["engines"] = _engines(decision, decision.grounds)
    return fields


def _engines(decision: Decision, grounds: Reasons) -> list[Json]:
    """What the router saw of the engines, in the order of their slots."""
    cached = grounds.columns.get("cached_tokens") or (0,) * len(grounds.slots)
    places = range(len(grounds.slots))
    marked = [place for place in places if _marks(decision, grounds, place)]
    rest = sorted((place for place in places if place not in marked), key=lambda place: -cached[place])
    return [_engine(decision, grounds, place) for place in sorted([*marked, *rest][:ENGINES])]


def _engine(decision: Decision, grounds: Reasons, place: int) -> Json:
    measured = grounds.measured_at[place]
    fields: Json = {"name": grounds.names[place]}
    fields |= {name: column[place] for name, column in grounds.columns.items()}
    if measured:
        fields["age_s"] = round((decision.at - measured) / SECOND, 3)
    return fields | _marks(decision, grounds, place)


def _marks(decision: Decision, grounds: Reasons, place: int) -> Json:
    marks: Json = {}
    if grounds.names[place] == decision.engine:
        marks["chosen"] = True
    if grounds.slots[place] == grounds.shadow:
        marks["shadow"] = True
    return marks
