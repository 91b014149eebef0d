"""The page section on the slowest requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from io import StringIO

from poise.core.records.blame import PARTS
from poise.report.blame import STRETCHES
from poise.report.figures import Case, by_load
from poise.report.fleet import title
from poise.report.pieces import fold, fold_all, section, table
from poise.report.story import Story, show_lines
from poise.report.wording import MISSING, duration
from poise.report.worst import BY

LISTED, FEW = 400, 3
"""Rows of a page, and the fewest of a table: many runs have fewer each."""

_HEADS = (
    "request", "arrived", "prompt", "cached", "output", "replica", "sent after", "TTFT", "TPOT", "E2E", "events",
)  # fmt: skip
_UPSETS = {"preemptions": "preempted", "migrations": "moved", "retries": "retried"}

Row = Mapping[str, float | None]


def worst_section(cases: Sequence[Case], pools: Sequence[str]) -> str:
    """The slowest requests by TTFT and end to end, a fold for each load and in it one for each policy."""
    drawn = [case for case in cases if case.worst and any(case.worst.values())]
    if not drawn:
        return ""
    most = max(LISTED // (len(drawn) * len(BY)), FEW)
    drawn = [replace(case, worst={by: rows[:most] for by, rows in (case.worst or {}).items()}) for case in drawn]
    folds = [(some[0].at, _at_load(some, pools)) for some in by_load(drawn).values()]
    text = (
        "Of the finished requests of the first seed, those that took longest. Cached: prompt tokens found in the "
        "prefix cache. Sent after: from the arrival to the (last) dispatch to a replica."
    )
    return section("Slowest requests", f'<p class="soft">{text}</p>', fold_all(folds), anchor="slowest")


def _at_load(cases: Sequence[Case], pools: Sequence[str]) -> str:
    if len(cases) == 1:
        return _tables(cases[0], pools)
    return "".join(fold(case.policy, _tables(case, pools)) for case in cases)


def _tables(case: Case, pools: Sequence[str]) -> str:
    worst = case.worst or {}
    rows = {int(row["request"] or 0): row for by in BY for row in worst.get(by, ())}
    tables = "".join(f"<h3>By {name}</h3>{_table(worst[by], pools)}" for by, name in BY.items() if worst.get(by))
    return tables + _stories(case, rows)


def _stories(case: Case, rows: Mapping[int, Row]) -> str:
    """The attribution of each request's time and, where it was recorded, its story."""
    if not case.blame:
        return ""
    items = "".join(f"<li>{_detail(number, case, row)}</li>" for number, row in sorted(rows.items()))
    name = "Their stories" if case.stories else "Where their time went"
    return fold(name, f'<ul class="stories">{items}</ul>')


def _detail(number: int, case: Case, row: Row) -> str:
    """A story; of a request without one, its last line."""
    if number in case.stories:
        out = StringIO()
        show_lines(case.stories[number], f"Request {number}", out)
        life, _, closing = out.getvalue().rstrip().rpartition("\n")
        return f'<pre class="scroll" tabindex="0">{escape(life)}</pre>{escape(closing)}'
    mean = (case.blame or {})["mean"]
    typical = {part: sum(mean[stretch][part] for stretch in STRETCHES) for part in PARTS}
    parts = {part: row[part] or 0.0 for part in PARTS}
    finished = round(case.result.get("finished") or 0)
    return escape(f"Request {number}. {Story([], row, parts, typical, finished).closing}")


def _table(rows: Sequence[Row], pools: Sequence[str]) -> str:
    head = "".join(f'<th scope="col"{"" if at else " class=n"}>{name}</th>' for at, name in enumerate(_HEADS))
    return table(head, "".join(_row(row, pools) for row in rows))


def _row(row: Row, pools: Sequence[str]) -> str:
    prompt, cached = row["prompt_tokens"] or 0, row["cached_tokens"] or 0
    share = f"<small>{100 * cached / prompt:.3g} %</small>" if cached else ""
    cells = (
        f"{row['arrival_s']:.4g} s",
        f"{prompt:,.0f}",
        f"{cached:,.0f}{share}",
        f"{row['output_tokens']:,.0f}",
        escape(_where(row, pools)),
        *(_seconds(row[name]) for name in ("queue_s", "ttft_s", "tpot_s", "e2e_s")),
        _upsets(row),
    )
    return f'<tr><td class="n">{row["request"]:.0f}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _seconds(value: float | None) -> str:
    return MISSING if value is None else duration(value)


def _where(row: Row, pools: Sequence[str]) -> str:
    """The replica that computed its prompt and, where that is another, the one that computed its output."""
    known = [int(row[name] or 0) for name in ("replica", "decode_replica") if (row[name] or 0) >= 0]
    return " → ".join(title(each, pools).removeprefix("replica ") for each in dict.fromkeys(known)) or MISSING


def _upsets(row: Row) -> str:
    parts = [
        f"{word}{f' {row[name]:.0f} times' if row[name] != 1 else ''}" for name, word in _UPSETS.items() if row[name]
    ]
    return ", ".join(parts) or MISSING
