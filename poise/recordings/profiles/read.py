"""All operator profiles of a directory, whatever their layout, as clean rows by kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from poise.core.errors import UserError
from poise.recordings.profiles import aiconfigurator, aisimulate, fidelity, layers, vidur
from poise.recordings.profiles.bounds import possible
from poise.recordings.profiles.rows import ABOUT, SHAPES, Counts, clean

LAYOUTS = {
    "gpu_op_profiles": aiconfigurator.read,
    "fidelity": fidelity.read,
    "systems/data": aisimulate.read,
    "vidur_profiles": vidur.read,
    "vllm_layer_profiles": layers.read,
}
"""Known folders, and their readers."""

IMPOSSIBLE = " faster than the device"
"""The name of rows whose kernel undercuts the datasheet."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Clean rows by kind, and by source what was read and left out."""

    rows: dict[str, pl.DataFrame] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)


def any_profiles(folder: Path) -> bool:
    """Whether there is a Parquet file of operators under `folder` where it is looked for."""
    return any(next((folder / name).rglob("*.parquet"), None) is not None for name in LAYOUTS)


def read_profiles(folder: Path, sources: tuple[str, ...] = ()) -> Profiles:
    """The profiles under `folder`; of `sources` only, where any are named. UserError where there are none."""
    parts: dict[str, list[pl.DataFrame]] = {}
    counts: dict[str, Counts] = {}
    for name, reader in LAYOUTS.items():
        if (sources and name not in sources) or not (folder / name).is_dir():
            continue
        for kind, rows in reader(folder / name):
            counts[name] = counts.get(name, Counts()) + _take(kind, rows, parts)
    if not parts:
        raise UserError(f"{folder}: holds no operator profiles; give a directory with one of {', '.join(LAYOUTS)}")
    return Profiles({kind: pl.concat(found) for kind, found in sorted(parts.items())}, counts)


def _take(kind: str, rows: pl.DataFrame, parts: dict[str, list[pl.DataFrame]]) -> Counts:
    """Clean `rows` into `parts`; rows of a kind that is not known, and impossible ones, are only counted."""
    if kind not in SHAPES:
        return Counts(read=rows.height, other={kind: rows.height})
    typed = rows.select(
        *(pl.col(name).cast(pl.String) for name in ABOUT),
        *(pl.col(name).cast(pl.Int64) for name in SHAPES[kind]),
        pl.col("us").cast(pl.Float64),
    )
    kept, counts = clean(kind, typed)
    kept, impossible = possible(kind, kept)
    parts.setdefault(kind, []).append(kept)
    return counts + Counts(other={f"{kind}{IMPOSSIBLE}": impossible} if impossible else {})


def described(profiles: Profiles) -> Iterator[str]:
    """One line a source: what was read and what was left out."""
    for source, each in profiles.counts.items():
        other = ", ".join(f"{name} {count:,}" for name, count in sorted(each.other.items()))
        yield (
            f"{source}: {each.read:,} rows; left out {each.missing:,} without a time, {each.repeated:,} repeated, "
            f"{each.contradictory:,} contradictory" + (f"; not modelled: {other}" if other else "")
        )
