"""Layouts that a published benchmark ran: InferenceX's configurations by engine version and day, from its repository.

`inferencex.csv` is what `bench/inferencex_layouts.py` gathers from github:SemiAnalysisAI/InferenceX (Apache-2.0). Its
results repeat engine, version, day, lengths and clients, but not always how many workers stood behind them, nor that
tokens were drafted.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout of a configuration.

    drafts: proposals of a decode step.  batch: most requests of a decode worker, of each of its ranks where those have
    requests of their own; 0 where its recipe does not say.
    prefill: None where decode does both.
    """

    drafts: int
    batch: int
    prefill: Side | None
    decode: Side

    @property
    def sequences(self) -> int:
        """Most requests of a decode worker, 0 where that is not known."""
        return self.batch * (self.decode.ranks if self.decode.shared else 1)


@dataclass(frozen=True, slots=True)
class Run:
    """What a result says of its run. day: 2026-01-31, "" if not stated.  weights: fp8, fp4, ….  model: catalogued."""

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
    """The layouts that were configured for `run`: of its very version where there are any, else those of its day."""
    rows = [row for row in _rows().get((key(run.engine), run.model, run.device, run.weights), ()) if _loads(row, run)]
    same = [row for row in rows if row["version"] and row["version"] == run.version]
    of_day = [row for row in same or rows if row["since"] <= (run.day or "9") <= (row["until"] or "9")]
    return tuple(dict.fromkeys(_layout(row) for row in of_day or same))


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
    return Layout(int(row["drafts"]), int(row["batch"] or 0), prefill, decode)


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
