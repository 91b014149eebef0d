"""The page of a Program: what was proven, its lanes over time, memory of each tier, critical path."""

from __future__ import annotations

from itertools import count

from poise.core.errors import ProgramError
from poise.pipeline.op import Kind
from poise.plan.training.page import KIND_STYLES, KIND_WORDS, MOST, held_chart
from poise.plan.training.shown import (
    LANES,
    MEMORY,
    PATH,
    Shown,
    lane_rows,
    memory_rows,
    path_rows,
    proven,
)
from poise.program.held import Held
from poise.program.task import Lane, Task
from poise.program.timed import Interval
from poise.report.chart import Line
from poise.report.frame import document
from poise.report.pieces import fold, section, soft, text_table
from poise.report.timeline import STYLE, Bar, Row, key, timeline, zoomed

_LABEL = "time, in units of the largest F"
_MESSAGE = 6
_STYLES = {kind.name: style for kind, style in KIND_STYLES.items()} | {"F_NO_GRAD": 0, "copy": 7, "recv": _MESSAGE}
_STAGES = frozenset({kind.name for kind in KIND_STYLES} - {"S", "T"} | {"F_NO_GRAD"})
"""Kinds whose argument begins with a stage and whose boxes are paler for every other chunk."""
_WORDS = {kind.name: word for kind, word in KIND_WORDS.items()} | {
    "B": KIND_WORDS[Kind.I], "F_NO_GRAD": "forward that keeps its input alone",
    "copy": "copy to or from the host", "recv": "message on its way",
}  # fmt: skip
_FREE = (3, 4, 5, 1, 7)
"""Colours of other kinds, in turn."""
_LONGEST = 24
"""Letters of a row's name."""
_STEPS = 200
"""Rows of a table on the page."""


def page(shown: Shown) -> str:
    """The page as text; it loads nothing from outside."""
    rows = [row for row in shown.timed.rows() if row.end > shown.timed.sent(row.number)]
    if len(rows) > MOST:
        raise ProgramError(f"--page: {len(rows)} tasks are too many to draw; show fewer than {MOST}, or --perfetto")
    name = shown.program.name or "a Program"
    head = soft(proven(name, shown.program, shown.proof))
    body = _lanes(shown, rows) + _memory(shown) + _path(shown)
    return document(f"{name}: {shown.program.ranks} ranks, {shown.proof.tasks} tasks", body, head=head, style=STYLE)


def _lanes(shown: Shown, intervals: list[Interval]) -> str:
    styles = _styles(list(dict.fromkeys(row.task.kind for row in intervals)))
    rows = _rows(shown, intervals, styles)
    left = 20 + int(6.5 * max((len(row.name) for row in rows), default=0))
    until = shown.shown(shown.timed.makespan)
    drawn = zoomed([timeline(shown.program.name or "lanes", rows, _LABEL, until, left=left)]) if rows else ""
    words = "A row is a lane of a rank, as in `0 compute`, and the text in a box is a microbatch or what the kind says."
    hidden = len(shown.program.rows) - len(rows)
    if hidden:
        words += f" Lanes without a task that takes time are left out: {hidden}."
    table = text_table(LANES, lane_rows(shown)[:_STEPS], label="Lanes")
    more = fold("Busy and idle time of each lane", table)
    return section("Which lane does what when", _legend(styles, rows), soft(words), drawn, more, anchor="timeline")


def _rows(shown: Shown, intervals: list[Interval], styles: dict[str, int]) -> list[Row]:
    """The lanes of each rank below one another, computing first."""
    found: dict[Lane, list[Bar]] = {}
    per = float(shown.timed.scale * shown.unit)
    for row in intervals:
        start, end, task = shown.timed.sent(row.number) / per, row.end / per, row.task
        bar = Bar(start, end, styles[task.kind], _text(task), _pale(shown, task))
        found.setdefault(row.lane, []).append(bar)
    lanes = sorted(found, key=lambda lane: (lane.rank, lane.name != "compute"))
    return [Row(_short(f"{lane.rank} {lane.name}"), found[lane]) for lane in lanes]


def _short(name: str) -> str:
    """The name of a row; that of a large group is cut."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _legend(styles: dict[str, int], rows: list[Row]) -> str:
    named: dict[str, int] = {}
    for kind, style in styles.items():
        named.setdefault(_WORDS.get(kind, kind), style)
    keys = [key(word, style) for word, style in named.items()]
    if any(bar.pale for row in rows for bar in row.bars):
        keys.append(key("paler: a rank's second chunk of layers (and fourth, …)", _STYLES["F"], pale=True))
    return f'<div class="legend">{"".join(keys)}</div>'


def _styles(kinds: list[str]) -> dict[str, int]:
    """A colour for each kind."""
    turn = count()
    return {kind: _STYLES[kind] if kind in _STYLES else _FREE[next(turn) % len(_FREE)] for kind in kinds}


def _text(task: Task) -> str:
    """What is written in a box: the last part of the argument, or the name of the message."""
    if task.arg is None:
        return task.writes[0].rpartition("@")[0] if task.writes else ""
    return str(task.arg[-1] if isinstance(task.arg, tuple) and task.arg else task.arg)


def _pale(shown: Shown, task: Task) -> bool:
    """Whether the task is of a rank's second chunk of layers (and fourth, …)."""
    stage = task.arg[0] if isinstance(task.arg, tuple) and task.arg else 0
    return task.kind in _STAGES and isinstance(stage, int) and stage // shown.program.ranks % 2 == 1


def _memory(shown: Shown) -> str:
    """The fullest rank of each tier over time."""
    fullest: dict[str, tuple[int, Held]] = {}
    for (rank, tier), held in shown.timed.held.items():
        if tier not in fullest or held.peak[0] > fullest[tier][1].peak[0]:
            fullest[tier] = (rank, held)
    if not fullest:
        return ""
    per = float(shown.timed.scale * shown.unit)
    lines = []
    for style, (tier, (rank, held)) in enumerate(fullest.items()):
        instants, levels = [each / per for each in held.instants], [float(each) for each in held.levels]
        lines.append(Line(f"{tier} of rank {rank}", style, instants, levels))
    drawn = held_chart(lines, shown.shown(shown.timed.makespan), _LABEL, "memory, in the unit of the sizes")
    table = text_table(MEMORY, memory_rows(shown)[:_STEPS], label="Memory")
    return section("What the fullest rank holds", *drawn, fold("Each rank", table), anchor="memory")


def _path(shown: Shown) -> str:
    rows = path_rows(shown)
    note = soft("Each of these could start when the one before it had ended: to shorten the step, shorten one of them.")
    more = soft(f"The first {_STEPS} of {len(rows)}.") if len(rows) > _STEPS else ""
    return section("Critical path", note, text_table(PATH, rows[:_STEPS], label="Critical path"), more, anchor="path")
