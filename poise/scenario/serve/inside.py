"""The policies that decide inside an engine, as its own configuration names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.core.reach import reach
from poise.cost.fitted import FittedEstimator, load_fitted
from poise.policies.batch.chunked import Chunked
from poise.policies.find import build
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.scenario.choice import choice
from poise.scenario.slots import INSIDE, acting

SLOTS = acting(INSIDE)
COST = "cost"


def policies(told: Any) -> dict[str, Any]:
    """The policies of an engine by slot, those not named as vLLM has them; UserError for what names none.

    `cost` names a file of `poise calibrate`; what a step costs by it is `step`.
    """
    if not isinstance(told, dict):
        raise UserError(f"additional-config: poise: {told!r} is no mapping; give {{SLOT: NAME}}, as a scenario does")
    for slot in told:
        if slot not in (*SLOTS, COST):
            known = ", ".join((*SLOTS, COST))
            raise UserError(f"additional-config: poise: {slot!r} is no policy of an engine; it may name {known}")
    found = {slot: _built(slot, told[slot]) for slot in SLOTS if told.get(slot) is not None}
    if told.get(COST) is not None:
        found["step"] = FittedEstimator(load_fitted(told[COST]), _NO_POOL).step
    return {"batcher": Chunked(), "preempt": LastAdmitted(), **found}


_NO_POOL: Any = None
"""Of its pool, a fitted cost asks for the layers of steps that compute some of them, and there are none here."""


def _built(slot: str, given: Any) -> Any:
    try:
        name, parameters = choice(given)
    except ValueError as error:
        raise UserError(f"additional-config: poise: {slot}: {error}") from None
    if ":" in name:
        reach(Path.cwd())
    return build(slot, name, parameters)
