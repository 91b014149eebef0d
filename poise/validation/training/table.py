"""Published runs in tables: `fidelity_training/*.csv`, a row one metric of one configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from poise.core.errors import PoiseError
from poise.validation.training.metrics import read_once, value_of
from poise.validation.training.read import Row, positive, rows_of
from poise.validation.training.run import Conditions, Run
from poise.validation.training.sources import megatron, mpt, zero_bubble
from poise.validation.training.stated import stated
from poise.validation.training.words import SilentError

FOLDER = "fidelity_training"
Reader = Callable[[Row], Conditions]

READERS: dict[str, Reader] = {
    "mosaicml/llm-foundry": mpt,
    "arXiv:2401.10241": zero_bubble,
    "arXiv:2104.04473": megatron,
}
"""Sources that are read in their own way, by a part of the column."""
TABLES: dict[str, Reader] = {"llm_foundry_mpt": mpt, "zero_bubble": zero_bubble, "megatron2021": megatron}
"""The same by the names of their tables."""
NEEDED = ("source", "model", "hardware", "n_gpus", "metric", "value", "unit")
"""Columns without which a table is another one's."""


def tables(folder: Path) -> list[Path]:
    """All tables of training runs of a folder, also those of collections within it."""
    return sorted(folder.glob(f"**/{FOLDER}/*.csv"))


def read_tables(folder: Path) -> tuple[list[Run], list[str]]:
    """All rows of all tables below `folder`, without those that repeat another; and what cannot be read."""
    runs: list[Run] = []
    faults: list[str] = []
    for path in tables(folder):
        rows = list(rows_of(path))
        missing = [name for name in NEEDED if rows and name not in rows[0][1]]
        if missing:
            faults.append(f"{path.name}: has no column {', '.join(missing)}, so it is no table of training runs")
            continue
        for place, row in read_once(rows):
            try:
                runs.append(_run(path.stem, place, row))
            except KeyError as name:
                faults.append(f"{place}: column {name} is missing")
            except ValueError as error:
                faults.append(f"{place}: {error}")
    return runs, faults


def _run(name: str, place: str, row: Row) -> Run:
    positive("value", row["value"])
    kind = "peak_memory" if row["metric"] == "peak_memory" else "step_time"
    common = (name, place, row["schedule"] or name, row["hardware"], row["model"], f"{name} {row['hardware']}")
    read = TABLES.get(name) or next((each for words, each in READERS.items() if words in row["source"]), stated)
    try:
        job, layout, quality, assumed, synchronous = read(row)
        value = value_of(row, job)
    except (SilentError, PoiseError) as error:
        return Run(*common, kind, 0.0, why=str(error))  # type: ignore[arg-type]
    sweep = f"{row['table']} {row['model']} {row['n_gpus']} {row['seq']} {row['global_batch']} {row['precision']}"
    return Run(*common, kind, value, job, layout, sweep, quality, assumed, "", synchronous)  # type: ignore[arg-type]
