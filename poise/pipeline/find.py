"""Finding a schedule by the name of its file, and making it with parameters that its function takes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from poise.core.errors import ScheduleError
from poise.pipeline import schedules
from poise.pipeline.costs import Costs
from poise.pipeline.schedule import Schedule


def names() -> list[str]:
    """The names of all schedules."""
    return sorted(module.name for module in pkgutil.iter_modules(schedules.__path__))


def find(name: str) -> Callable[..., Schedule]:
    """The function that makes the schedule `name`; ScheduleError with the nearest names if there is none."""
    if name not in names():
        near = get_close_matches(name, names(), 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names())}"
        raise ScheduleError(f"{name!r} is no schedule; {hint}")
    found: Callable[..., Schedule] = getattr(importlib.import_module(f"poise.pipeline.schedules.{name}"), name)
    return found


def takes(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a schedule besides `stages` and `microbatches`."""
    return dict(list(inspect.signature(find(name)).parameters.items())[2:])


def make(
    name: str, stages: int, microbatches: int, *, costs: Costs | None = None,
    memory_limit: Fraction | float | None = None, **given: Any,
) -> Schedule:  # fmt: skip
    """The schedule `name` for `stages` ranks and so many microbatches.

    `costs` and `memory_limit` (full-stage microbatch activations) reach those that use them; other parameters must be
    ones of the schedule. `chunks` may be given to all, and must then be what the schedule has on each rank.
    """
    for word, value in (("stages", stages), ("microbatches", microbatches), ("chunks", given.get("chunks", 1))):
        if value < 1:
            raise ScheduleError(f"{name}: {word} {value}; give 1 or more")
    known = takes(name)
    chunks = given.get("chunks")
    if "chunks" not in known:
        given.pop("chunks", None)
    for word in given:
        if word not in known:
            near = get_close_matches(word, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise ScheduleError(f"{name}: unknown parameter {word!r}; {hint}")
    offered = {"costs": costs, "memory_limit": memory_limit}
    given |= {word: value for word, value in offered.items() if word in known and value is not None}
    schedule = find(name)(stages, microbatches, **given)
    has = schedule.stages // len(schedule.ranks)
    if chunks is not None and chunks != has:
        raise ScheduleError(f"{name}: --chunks {chunks}, but it has {has} on each rank; leave it out")
    return schedule
