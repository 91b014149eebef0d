"""`Policies`: one policy for each slot, with the recommended ones as defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poise.core.policy import (
    Admission,
    Batcher,
    Bundle,
    Cache,
    Forecaster,
    Hedger,
    Lender,
    Mover,
    Order,
    Predictor,
    Preempt,
    Queue,
    Recovery,
    Router,
    Scaler,
)
from poise.core.slot import SLOTS
from poise.policies.find import build_named

Name = str | Mapping[str, Any]
"""A policy as files name it: NAME, `{NAME: {parameter: value}}` or `package.module:Class`."""


class Policies(Bundle):
    """The policies of a run: for each slot an object, or a name as in files; a slot left out has its default.

        `poise policies` lists the names, and `core.slot.SLOTS` documents each slot's decision and its behaviour
    where it
        is None. ScenarioError for an unknown name, PolicyError for an object that cannot fill its slot.
    """

    def __init__(
        self,
        router: Router | Name | None = None,
        *,
        mover: Mover | Name | None = None,
        lender: Lender | Name | None = None,
        order: Order | Name | None = None,
        admission: Sequence[Admission | Name] | Name | None = None,
        predictor: Predictor | Name | None = None,
        hedge: Hedger | Name | None = None,
        scaler: Scaler | Name | None = None,
        forecast: Forecaster | Name | None = None,
        recovery: Recovery | Name | None = None,
        queue: Queue | Name | None = None,
        batcher: Batcher | Name | None = None,
        preempt: Preempt | Name | None = None,
        cache: Cache | Name | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in SLOTS}
        super().__init__(**{name: _held(name, value) for name, value in given.items()})


def _held(name: str, given: Any) -> Any:
    """The policy of a slot, built from the given value."""
    slot = SLOTS[name]
    if slot.several:
        return build_named(name, [given] if isinstance(given, str | Mapping) else given or ())
    return build_named(name, slot.default or None if given is None else given)
