"""The policies that decide inside an engine, as its own configuration names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.core.reach import reach
from poise.policies.batch.chunked import Chunked
from poise.policies.find import build
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.scenario.choice import choice

SLOTS = ("batcher", "queue", "preempt", "cache")


def policies(told: Any) -> dict[str, Any]:
    """The policies of an engine by slot, those not named as vLLM has them; UserError for what names none."""
    if not isinstance(told, dict):
        raise UserError(f"additional-config: poise: {told!r} is no mapping; give {{SLOT: NAME}}, as a scenario does")
    for slot in told:
        if slot not in SLOTS:
            raise UserError(
                f"additional-config: poise: {slot!r} is no policy of an engine; it may name {', '.join(SLOTS)}"
            )
    found = {slot: _built(slot, each) for slot, each in told.items() if each is not None}
    return {"batcher": Chunked(), "preempt": LastAdmitted(), **found}


def _built(slot: str, given: Any) -> Any:
    try:
        name, parameters = choice(given)
    except ValueError as error:
        raise UserError(f"additional-config: poise: {slot}: {error}") from None
    if ":" in name:
        reach(Path.cwd())
    return build(slot, name, parameters)
