"""Layouts that a published benchmark ran: InferenceX's configurations by engine version and day, from its repository.

`inferencex.csv` is what `bench/inferencex_layouts.py` gathers from github:SemiAnalysisAI/InferenceX and the recipes
that it runs by (github:NVIDIA/srt-slurm; both Apache-2.0). Its results repeat engine, version, day, lengths and
clients, but not always how many workers stood behind them, that tokens were drafted, or how many requests were let in.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path

from poise.catalogue.names import key

_DATA = Path(__file__).with_name("inferencex.csv")
_SIDE = re.compile(r"(\d+)xtp(\d+)ep(\d+)(dp)?")


@dataclass(frozen=True, slots=True)
class Side:
    """Workers of one role. ranks: devices of a worker.  shared: whether each rank has requests of its own."""

    workers: int
    ranks: int
    expert: int
    shared: bool

    @property
    def parts(self) -> int:
        """Ranks that have requests of their own."""
        return self.ranks if self.shared else 1


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout of a configuration.

    drafts: proposals of a decode step.  batch: most requests of a decode worker, of each of its ranks where those have
    requests of their own; 0 where its recipe does not state them.  prefill_batch, prefill_tokens: likewise the most
    requests and prompt tokens of a prefill worker's step.
    prefill: None where decode does both.
    """

    drafts: int
    batch: int
    prefill: Side | None
    decode: Side
    prefill_batch: int = 0
    prefill_tokens: int = 0

    @property
    def sequences(self) -> int:
        """Most requests of a decode worker, 0 where that is not known."""
        return self.batch * self.decode.parts

    @property
    def unlimited(self) -> Layout:
        """The same with nothing known of what its workers admit."""
        return replace(self, batch=0, prefill_batch=0, prefill_tokens=0)


@dataclass(frozen=True, slots=True)
class Run:
    """Conditions of a result's run. day: 2026-01-31, "" if not stated.  weights: fp8, fp4, ….  model: catalogued."""

    engine: str
    model: str
    device: str
    weights: str
    version: str
    day: str
    prompt: int
    output: int
    clients: int


def layouts_of(run: Run) -> tuple[Layout, ...]:
    """The layouts that were configured for `run`: of its very version where there are any, else those of its day.

    A configuration is run when it changes, so of those the ones that changed on that day or the day before, if any did.
    """
    rows = [row for row in _rows().get((key(run.engine), run.model, run.device, run.weights), ()) if _loads(row, run)]
    same = [row for row in rows if row["version"] and row["version"] == run.version]
    of_day = [row for row in same or rows if row["since"] <= (run.day or "9") <= (row["until"] or "9")]
    changed = [row for row in of_day if _ran(row, run.day)]
    return tuple(dict.fromkeys(_layout(row) for row in changed or of_day or same))


def _ran(row: dict[str, str], day: str) -> bool:
    """Whether the configuration of `row` changed on `day` or on the day before."""
    if not day:
        return False
    eve = (date.fromisoformat(day) - timedelta(1)).isoformat()
    return not {day, eve}.isdisjoint(row["runs"].split())


def _loads(row: dict[str, str], run: Run) -> bool:
    if (row["prompt"], row["output"]) != (str(run.prompt), str(run.output)):
        return False
    low, _, high = row["clients"].partition("-")
    if high:
        return int(low) <= run.clients <= int(high)
    return str(run.clients) in row["clients"].split()


def _layout(row: dict[str, str]) -> Layout:
    prefill, decode = _side(row["prefill"]), _side(row["decode"])
    assert decode is not None
    limits = (int(row[name] or 0) for name in ("prefill_batch", "prefill_tokens"))
    return Layout(int(row["drafts"]), int(row["batch"] or 0), prefill, decode, *limits)


def _side(words: str) -> Side | None:
    found = _SIDE.fullmatch(words)
    if not found:
        return None
    workers, tensor, expert = map(int, found.groups()[:3])
    return Side(workers, max(tensor, expert), expert, bool(found[4]))


@cache
def _rows() -> dict[tuple[str, ...], list[dict[str, str]]]:
    """Rows by engine, model, device and weights."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with _DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if "None" not in row["clients"]:
                found.setdefault((key(row["engine"]), row["model"], row["device"], row["weights"]), []).append(row)
    return found
