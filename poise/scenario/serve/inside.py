"""The policies that decide inside an engine, from its own configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from poise.core.errors import UserError
from poise.core.estimate import Piece, StepShape
from poise.core.plugin import reach
from poise.core.slot import acting
from poise.cost.fitted import FittedEstimator, load_fitted
from poise.policies import Policies
from poise.policies.find import build
from poise.scenario.policy_spec import choice

Step = Callable[[StepShape], Piece]
COST: Final = "cost"
INSIDE: Final = acting("inside")


def policies(given: Any) -> tuple[Policies, Step | None]:
    """The policies of an engine, vLLM's own by default, and its step cost; UserError for invalid policies.

    `cost` names a file of `poise calibrate`, by which a step costs what is returned; None without it.
    """
    if not isinstance(given, dict):
        raise UserError(f"additional-config: poise: {given!r} is not a mapping; give {{SLOT: NAME}}, as in a scenario")
    for slot in given:
        if slot not in (*INSIDE, COST):
            known = ", ".join((*INSIDE, COST))
            raise UserError(f"additional-config: poise: {slot!r} is not a policy of an engine; it may name {known}")
    found = Policies(**{slot: _built(slot, given[slot]) for slot in INSIDE if given.get(slot) is not None})
    return found, None if given.get(COST) is None else FittedEstimator(load_fitted(given[COST]), _NO_POOL).step


_NO_POOL: Any = None
"""The pool of a fitted cost, which reads only the layers of partial steps, and there are none here."""


def _built(slot: str, given: Any) -> Any:
    try:
        name, parameters = choice(given)
    except ValueError as error:
        raise UserError(f"additional-config: poise: {slot}: {error}") from None
    if ":" in name:
        reach(Path.cwd())
    return build(slot, name, parameters)
