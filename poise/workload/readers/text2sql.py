"""Workflows of text-to-SQL agents: one query a row, with the steps of its program in order."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

from poise.core.errors import TraceError
from poise.workload.readers.format import Format, Source, same_names
from poise.workload.readers.raw import Raw, moved

SIDE_BY_SIDE = ("generate_candidate", "revise", "evaluate")
"""Stages whose neighbouring steps run at once: one for each candidate or test.

The log does not record which do. In CHESS's pipeline (Hexgen-Flow, arXiv 2505.05286) candidates, their revisions and
their evaluations are independent of one another, while the agents (Information Retriever, unit_tester) decide again
after each answer, on a prompt that grew by it.
"""


def steps(raw: Raw) -> Raw:
    """The steps of queries as requests; each waits for all of the step, or side-by-side steps, before it."""
    made: dict[str, list[Any]] = {name: [] for name in ("session", "stage", "prompt_tokens", "output_tokens", "after")}
    broken: dict[int, str] = {}
    lines: list[int] = []
    for row, (query, listed) in enumerate(zip(raw.columns["query"], raw.columns["steps"], strict=True)):
        why = raw.broken.get(row) or _wrong(listed)
        if why:
            broken[len(lines)] = why
        before: list[int] = []
        for _, group in groupby(enumerate([["", 1, 1]] if why else listed), _side_by_side):
            first = len(lines)
            for _, (stage, prompt, output) in group:
                for name, value in zip(made, (query, stage, prompt, output, before), strict=True):
                    made[name].append(value)
                lines.append(row)
            before = [*range(first, len(lines))]
    if not lines or len(broken) == len(lines):
        raise TraceError(f"{raw.path}: no query has steps; each is a list of [stage, input_tokens, output_tokens]")
    columns: dict[str, Any] = {**made, "arrival_s": [0.0] * len(lines)}
    return Raw(raw.path, columns, len(lines), partial(moved, raw.place, lines), broken)


def _side_by_side(numbered: tuple[int, list[Any]]) -> str:
    """Equal for neighbours that run at once."""
    at, (stage, *_) = numbered
    return next((each for each in SIDE_BY_SIDE if stage.startswith(each)), str(at))


def _wrong(listed: Any) -> str:
    if not isinstance(listed, list) or not listed:
        return f"steps is {listed!r}; it must be a list of [stage, input_tokens, output_tokens]"
    odd = [each for each in listed if not isinstance(each, list) or len(each) != 3 or not isinstance(each[0], str)]
    return f"a step is {odd[0]!r}; it must be [stage, input_tokens, output_tokens]" if odd else ""


AGENT_STEPS = Format(
    "agent_steps",
    columns={
        "arrival_s": (Source("arrival_s"),),
        **same_names("session", "stage", "prompt_tokens", "output_tokens", "after"),
    },
    signature=("query", "steps"),
    prepare=steps,
)
"""Objects with `query` and `steps`, a list of `[stage, input_tokens, output_tokens]`. All queries begin at 0, for such
logs do not record when: use `recorded_sessions` for your own arrivals."""
