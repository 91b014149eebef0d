"""Requests of agents: streams with prefix identity by characters, and sessions of calls with tools between them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.workload.readers.columns import codes, numbers
from poise.workload.readers.format import Format, Source, same_names
from poise.workload.readers.raw import Column, Raw, moved

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

CHARACTERS = 4
"""Characters of a token, where a log has only characters."""

AGENT_PREFIXES = Format(
    "agent_prefixes",
    columns={
        "arrival_s": (Source("timestamp", 1e-3),),
        "prompt_tokens": (Source("input_chars", 1 / CHARACTERS),),
        "output_tokens": (Source("output_chars", 1 / CHARACTERS),),
        **same_names("session", "hash_ids"),
    },
    signature=("session", "timestamp", "input_chars", "output_chars", "hash_ids"),
    block_tokens=512 // CHARACTERS,
)
"""Objects with `session`, `timestamp` (ms), `input_chars`, `output_chars` and an id for each 512 characters in full.

Stamps are those of the log, some of which are replays: sessions with think times of your own are `recorded_sessions`.
"""


def calls(raw: Raw) -> Raw:
    """The model's calls among the events of sessions, each joined to the call before it in its session.

    delay_s is the time from the end of the one call to the start of the next, 0 where they overlap: the tools, the
    longest of which is `tool`. Calls that are bad rows stay in their places, but no other call waits for them.
    """
    columns = raw.columns
    kinds = [str(each).strip().lower() for each in columns["kind"]]
    rows = np.flatnonzero([kind != "tool" for kind in kinds])
    start, end, prompt = (numbers(columns[name])[rows] for name in ("start_s", "end_s", "prompt_tokens"))
    output = _outputs(raw, rows)
    broken = _broken(raw, rows, kinds, (start >= 0) & (end >= start))
    if len(rows) == len(broken):
        raise TraceError(f"{raw.path}: no event is a sound call of the model; `kind` must be llm for some of them")
    sound = (prompt >= 1) & (output >= 1) & ~np.isin(np.arange(len(rows)), list(broken))
    after, delay = _chain(codes(columns["session"])[0][rows], start, end, sound)
    kept = ("session", "start_s", "end_s", "prompt_tokens")
    made: dict[str, Column] = {name: _some(columns[name], rows) for name in kept}
    made |= {"output_tokens": output.tolist(), "after": after, "delay_s": delay}
    if "tool" in columns:
        made["tool"] = _tools(raw, kinds, rows)
    return Raw(raw.path, made, len(rows), partial(moved, raw.place, rows.tolist()), broken)


def _broken(raw: Raw, rows: Rows, kinds: list[str], timed: NDArray[np.bool_]) -> dict[int, str]:
    """Why some of `rows` are no calls, by their place among them."""
    found = {}
    for at, row in enumerate(rows.tolist()):
        if row in raw.broken:
            found[at] = raw.broken[row]
        elif kinds[row] != "llm":
            found[at] = f"kind is {raw.columns['kind'][row]!r}; it must be llm or tool"
        elif not timed[at]:
            times = " and ".join(f"{name} is {raw.columns[name][row]}" for name in ("start_s", "end_s"))
            found[at] = f"{times}; a call must start at 0 or later, and end behind that"
    return found


def _outputs(raw: Raw, rows: Rows) -> Floats:
    """Output tokens: as reported, or by characters where that is a partial count of a stream.

    No text has over 8 characters a token; hosted models that stream report what they had sent when the call began.
    """
    by_length = np.rint(numbers(raw.columns["chars"])[rows] / CHARACTERS)
    reported = by_length * 0
    if "output_tokens_reported" in raw.columns:
        reported = np.nan_to_num(numbers(raw.columns["output_tokens_reported"])[rows])
    return np.where(2 * reported >= by_length, reported, by_length)


def _chain(session: Rows, start: Floats, end: Floats, sound: NDArray[np.bool_]) -> tuple[list[Any], list[float]]:
    """The row before each row in its session (None for the first) and the seconds between the two."""
    last: dict[int, int] = {}
    after: list[Any] = []
    delay: list[float] = []
    for row, name in enumerate(session.tolist()):
        before = last.get(name)
        after.append(before)
        delay.append(0.0 if before is None else max(float(start[row] - end[before]), 0.0))
        if sound[row]:
            last[name] = row
    return after, delay


def _tools(raw: Raw, kinds: list[str], rows: Rows) -> list[str | None]:
    """The tool that ran longest between each call and the next of its session; None where none did."""
    session, names = codes(raw.columns["session"])[0].tolist(), raw.columns["tool"]
    lasted = numbers(raw.columns["end_s"]) - numbers(raw.columns["start_s"])
    longest: dict[int, tuple[float, str]] = {}
    last: dict[int, int] = {}
    for row, kind in enumerate(kinds):
        if kind == "llm":
            last[session[row]] = row
        elif kind == "tool" and session[row] in last and names[row]:
            call = last[session[row]]
            longest[call] = max(longest.get(call, (-1.0, "")), (float(lasted[row]), str(names[row])))
    return [longest[row][1] if row in longest else None for row in rows.tolist()]


def _some(column: Column, rows: Rows) -> Column:
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


AGENT_SESSIONS = Format(
    "agent_sessions",
    columns={
        "arrival_s": (Source("start_s"),),
        **same_names("prompt_tokens", "output_tokens", "session", "after", "delay_s", "tool"),
    },
    signature=("session", "kind", "start_s", "end_s", "prompt_tokens", "chars"),
    prepare=calls,
    grows=True,
)
"""Events `llm` and `tool`: `session`, `kind`, `start_s` and `end_s` (in the session), `prompt_tokens`, `chars`.

Each prompt begins with the one before it and, where there is room, that one's output. All sessions begin at 0, for such
logs do not record when each began: use `recorded_sessions` for your own arrivals.
"""
