"""Finding a schedule by the name of its file, and making it with parameters that its function takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, cast

from poise.core.errors import ScheduleError
from poise.core.plugin import Plugins, nearest, reach
from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit
from poise.pipeline.schedule import Schedule

FILES: Final = Plugins("poise.pipeline.schedules", "schedule", "package.module:function", error=ScheduleError)


def names() -> list[str]:
    """The names of all schedules."""
    return FILES.names()


def find(name: str) -> Callable[..., Schedule]:
    """The function that makes the schedule `name`, a built-in one or `package.module:function` of the user's own.

    ScheduleError with the nearest names if there is none.
    """
    if ":" in name:
        reach(Path.cwd())
        found = FILES.outside(name)
    elif name in names():
        found = FILES.members(name)[name]
    else:
        raise FILES.unknown(name, names())
    if not callable(found):
        raise ScheduleError(f"{name}: is no function; name one that takes stages and microbatches")
    return cast("Callable[..., Schedule]", found)


def takes(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a schedule besides `stages` and `microbatches`."""
    return dict(list(inspect.signature(find(name)).parameters.items())[2:])


def read_given(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parameters of a schedule from texts like `alive=6`, `replicas=2,1,1` or `fill=no`, by the types it declares."""
    known, found = takes(name), {}
    for text in texts:
        word, _, value = text.partition("=")
        if word not in known:
            raise _unknown(name, word, known)
        annotation = known[word].annotation
        kind = (annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)).partition(" | ")[0]
        if kind not in _READ:
            raise ScheduleError(f"{name}: {word} cannot be given as a text; it has an option of its own")
        try:
            found[word] = _READ[kind](value)
        except (ValueError, KeyError, ZeroDivisionError):
            raise ScheduleError(f"{name}: {text!r} is no value of {word}; give {_AS[kind]}") from None
    return found


def _unknown(name: str, word: str, known: dict[str, inspect.Parameter]) -> ScheduleError:
    return ScheduleError(f"{name}: unknown parameter {word!r}; {nearest(word, known, 'it has', 1)}")


_READ: dict[str, Callable[[str], Any]] = {
    "int": int,
    "str": str,
    "bool": lambda text: {"yes": True, "no": False}[text],
    "Fraction": Fraction,
    "Sequence[int]": lambda text: [int(each) for each in text.split(",")],
}

_AS = {
    "int": "a whole number", "str": "a word", "bool": "yes or no", "Fraction": "a number",
    "Sequence[int]": "whole numbers, as in 2,1,1",
}  # fmt: skip


def make(
    name: str, stages: int, microbatches: int, *, costs: Costs | None = None,
    memory_limit: Limit | None = None, **given: Any,
) -> Schedule:  # fmt: skip
    """The schedule `name` for `stages` ranks and `microbatches` microbatches.

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
            raise _unknown(name, word, known)
    offered = {"costs": costs, "memory_limit": memory_limit}
    given |= {word: value for word, value in offered.items() if word in known and value is not None}
    schedule = _made(name, stages, microbatches, given)
    has = schedule.stages // len(schedule.ranks)
    if chunks is not None and chunks != has:
        raise ScheduleError(f"{name}: --chunks {chunks}, but it has {has} on each rank; leave it out")
    return schedule


def _made(name: str, stages: int, microbatches: int, given: dict[str, Any]) -> Schedule:
    function = find(name)
    if ":" not in name:
        return function(stages, microbatches, **given)
    try:
        schedule = function(stages, microbatches, **given)
    except ScheduleError:
        raise
    except Exception as error:  # whatever a user's own function raises
        raise ScheduleError(f"{name} fails ({type(error).__name__}: {error}); correct it") from None
    if not isinstance(schedule, Schedule):
        raise ScheduleError(f"{name} returns {type(schedule).__name__}; a schedule's function returns a Schedule")
    return schedule
