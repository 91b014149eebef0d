"""Print how far measured operators are off by kind: shapes held out, devices held out, and the roofline.

    python bench/accuracy.py FOLDER [FOLDER]

FOLDER holds operator profiles (`gpu_op_profiles`, or the `systems/data` of AISimulate); the tables that ship are
judged. A device that they have is answered by the others' alone. The table is that of docs/costs.md, as Markdown; a
cell is the median and the 90th percentile of absolute relative errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poise.cost.tables import PROFILERS, Tables, load_tables
from poise.recordings.profiles.bounds import known_device
from poise.recordings.profiles.read import read_profiles
from poise.validation.operators import answers

Cell = tuple[str, str]
"""A kind of operator and a device."""


def main(folders: Sequence[str]) -> None:
    """Print the table."""
    tables = load_tables()
    lent: dict[Cell, list[NDArray[np.float64]]] = {}
    plain: dict[str, list[NDArray[np.float64]]] = {}
    for folder in folders:
        for each in answers(read_profiles(Path(folder)), tables, unseen=True):
            if each.engine not in PROFILERS and each.how != "no table":
                device = known_device(each.device)
                lent.setdefault((each.kind, device.name if device else each.device), []).append(each.ratio)
                plain.setdefault(each.kind, []).append(each.naive)
    devices = sorted({device for _, device in lent})
    kinds = [kind for kind in dict.fromkeys(t.kind for t in tables.tables) if kind in plain]
    heads = ["operator", "rows", "shapes held out", *(f"{name} by others" for name in devices), "roofline"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for kind in kinds:
        rows = sum(len(each) for each in plain[kind])
        cells = [f"{rows:,}", _held_out(tables, kind), *(_written(lent.get((kind, name), [])) for name in devices)]
        print(f"| `{kind}` | " + " | ".join([*cells, _written(plain[kind])]) + " |")


def _held_out(tables: Tables, kind: str) -> str:
    """The errors kept with the tables of a kind: the median row's, tables in order of their error."""
    found = [t for t in tables.tables if t.kind == kind and (t.framework not in PROFILERS or kind == "send_recv")]
    rows = sum(t.rows for t in found)
    return " / ".join(f"{100 * _median(((t.error[at], t.rows) for t in found), rows):.1f} %" for at in (0, 1))


def _median(errors: Iterator[tuple[float, int]], rows: int) -> float:
    passed = 0
    for error, count in sorted(errors):
        passed += count
        if 2 * passed >= rows:
            return error
    return float("nan")


def _written(ratios: Sequence[NDArray[np.float64]]) -> str:
    """Median and 90th percentile of absolute relative errors of all rows."""
    known = np.concatenate(ratios) if ratios else np.array([])
    known = np.abs(known[np.isfinite(known)] - 1)
    return f"{np.median(known):.1%} / {np.percentile(known, 90):.1%}".replace("%", " %") if len(known) else "–"


if __name__ == "__main__":
    main(sys.argv[1:])
