"""Single operators compared with measured ones: the tables' times, and the roofline's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poise.core.spec import Device
from poise.cost.operator import FORMATS, TILE
from poise.cost.tables import SHIPPED, Curve, Tables, load_tables
from poise.recordings.profiles.bounds import known_device
from poise.recordings.profiles.bulk import answers as seconds_of
from poise.recordings.profiles.fitting import Floats
from poise.recordings.profiles.plain import plain
from poise.recordings.profiles.read import Profiles, any_profiles, described, read_profiles
from poise.recordings.profiles.rows import ABOUT, coordinates
from poise.validation.score import ALL, Score


@dataclass(frozen=True, slots=True)
class Answered:
    """Predicted over measured of one group of rows; NaN where there is no answer."""

    source: str
    device: str
    engine: str
    kind: str
    how: str
    ratio: Floats
    naive: Floats


def operators(folder: Path, tables: Tables | None = None, *, unseen: bool = False) -> list[dict[str, Any]]:
    """Rows {source, device, model, engine, metric, n, answered, bias, median_ape, p90_ape, naive_median_ape,
    naive_p90_ape, how} of all operator profiles under `folder`, by source, device, engine and kind.

    tables: whose answers are judged (default: those that ship).  unseen: each device is answered by the others' tables
    only.  bias: the median of predicted over measured less 1.  `naive_` figures are the roofline's on the same rows.
    UserError where the folder holds no profiles.
    """
    found = list(answers(read_profiles(folder), tables or load_tables(), unseen=unseen))
    return [_row(key, each) for key, each in sorted(_groups(found).items())]


def operator_scores(folder: Path, tables: str = "") -> tuple[list[Score], list[str]]:
    """Scores of all operator profiles under `folder` by source, device and engine; rows of kinds that are not modelled,
    unanswered; and a total per kind. Empty where the folder holds no profiles. `naive` is the roofline.

    With them a line for each source: what was read and what was left out.
    tables: the file of tables that is judged; "" takes those that ship.
    """
    if not any_profiles(folder):
        return [], []
    profiles = read_profiles(folder)
    found = list(answers(profiles, load_tables(tables or SHIPPED)))
    rows = [_row(key, group) for key, group in sorted(_groups(found).items())]
    unmodelled = [
        Score(source, ALL, "", "", f"op:{kind}", count, 0, None, None, None, None, None)
        for source, each in sorted(profiles.counts.items())
        for kind, count in sorted(each.other.items())
    ]
    return [*map(_as_score, rows), *unmodelled, *map(_as_score, totals(found))], list(described(profiles))


def _as_score(row: dict[str, Any]) -> Score:
    names = {"how", "naive_p90_ape"}
    figures = {name: value for name, value in row.items() if name not in names}
    if not row["source"]:
        figures |= dict.fromkeys(("source", "device", "model", "engine"), ALL)
    return Score(**figures)


def _groups(found: list[Answered]) -> dict[tuple[str, str, str, str], list[Answered]]:
    groups: dict[tuple[str, str, str, str], list[Answered]] = {}
    for each in found:
        groups.setdefault((each.source, each.device, each.engine, each.kind), []).append(each)
    return groups


def answers(profiles: Profiles, tables: Tables, *, unseen: bool = False) -> Iterator[Answered]:
    """The answers to all profiles, one for each source, device, engine, kernel and format."""
    for kind, rows in profiles.rows.items():
        for key, part in rows.group_by(*ABOUT, maintain_order=True):
            source, name, engine, kernel, form = (str(each) for each in key)
            device = known_device(name)
            seconds = part["us"].to_numpy() * 1e-6
            if device is None or form not in FORMATS:
                nothing = np.full(len(seconds), np.nan)
                yield Answered(source, name, engine, kind, "device or format not known", nothing, nothing)
                continue
            known = tables.without(device.name) if unseen else tables
            if "nodes" in part.columns:  # tables are of one node
                seconds = np.where(part["nodes"].to_numpy() > 1, np.nan, seconds)
            ask = _mixed if kind == "mixed" else _single
            how, predicted, naive = ask(known, kind, device, form, engine, kernel, part)
            yield Answered(source, name, engine, kind, how, predicted / seconds, naive / seconds)


def _single(
    tables: Tables, kind: str, device: Device, form: str, engine: str, kernel: str, rows: pl.DataFrame
) -> tuple[str, Floats, Floats]:
    numbers = coordinates(kind, rows).to_numpy()
    naive = plain(kind, form, device, numbers)
    curve = tables.named(kind, device, form, engine, kernel, tuple(np.median(numbers, axis=0)))
    if curve is None:
        return "no table", np.full(len(numbers), np.nan), naive
    found = seconds_of(curve, numbers)
    if curve.table.operator.link:  # as the estimator: where no link of tables joins the ranks, the closed form answers
        beyond = rows["ranks"].to_numpy() > device.scaleup_domain
        return "closed form" if beyond.all() else _how(curve), np.where(beyond, naive, found), naive
    return _how(curve), found, naive


def _mixed(
    tables: Tables, kind: str, device: Device, form: str, engine: str, kernel: str, rows: pl.DataFrame
) -> tuple[str, Floats, Floats]:
    """A step of one chunk with decodes: in one kernel where that gives each head of a decode a tile of its own, else
    what each takes beyond the fixed time, which counts once."""
    chunk = rows.with_columns(batch=pl.lit(1), window=pl.lit(0))
    decodes = rows.with_columns(window=pl.lit(0))
    parts = [
        _single(tables, "prefill", device, form, engine, kernel, chunk),
        _single(tables, "decode", device, form, engine, kernel, decodes),
    ]
    how = parts[0][0] if parts[0][0] == parts[1][0] else "borrowed"
    naive = parts[0][2] + parts[1][2]
    one, other = (tables.curve(each, device, form, engine, kernel) for each in ("prefill", "decode"))
    if one is None or other is None:
        return "no table", np.full(rows.height, np.nan), naive
    if other.table.tile:
        return how, _side_by_side(one, other.table.tile, rows), naive
    together = parts[0][1] + parts[1][1] - other.seconds(1.0, 1.0, 1.0, 64.0)
    return how, np.maximum(together, np.maximum(parts[0][1], parts[1][1])), naive


def _side_by_side(curve: Curve, tile: int, rows: pl.DataFrame) -> Floats:
    """A chunk and decodes in one kernel: tiles of `tile` queries, as long as so many over the mean of the keys that
    they see, or as the longer of both alone."""
    chunk = rows.with_columns(batch=pl.lit(1), window=pl.lit(0))
    whole = chunk.with_columns(new=tile * (pl.col("new") / tile).ceil().cast(pl.Int64))
    at = coordinates("prefill", whole).with_columns(span=coordinates("prefill", chunk)["span"]).to_numpy()
    decodes = at.copy()
    decodes[:, 0] = np.maximum(rows["context"].to_numpy(), TILE)
    decodes[:, 1] = tile * rows["batch"].to_numpy() * rows["heads"].to_numpy() * 1.0
    every = at.copy()
    every[:, 1] = at[:, 1] + decodes[:, 1]
    every[:, 0] = (at[:, 0] * at[:, 1] + decodes[:, 0] * decodes[:, 1]) / every[:, 1]
    found: Floats = np.max([seconds_of(curve, each) for each in (at, decodes, every)], axis=0)
    return found


def _how(curve: Curve) -> str:
    if not curve.borrowed:
        return "measured"
    origin = curve.origin()
    return f"borrowed from {origin.device}" if origin.device else "roofline"


def _row(key: tuple[str, str, str, str], parts: list[Answered]) -> dict[str, Any]:
    source, device, engine, kind = key
    ratio, naive = (np.concatenate([getattr(each, name) for each in parts]) for name in ("ratio", "naive"))
    kept = ratio[np.isfinite(ratio)]
    row: dict[str, Any] = {"source": source, "device": device, "model": "", "engine": engine, "metric": f"op:{kind}"}
    row |= {"n": len(ratio), "answered": len(kept)}
    row |= _errors(kept, "") | _errors(naive[np.isfinite(naive)], "naive_")
    return row | {"how": ", ".join(sorted({each.how for each in parts}))}


def _errors(ratio: Floats, prefix: str) -> dict[str, float | None]:
    names = [f"{prefix}{name}" for name in ("bias", "median_ape", "p90_ape")]
    if not len(ratio):
        return dict.fromkeys(names)
    off = np.abs(ratio - 1)
    values = (float(np.median(ratio)) - 1, float(np.median(off)), float(np.quantile(off, 0.9)))
    return {name: round(value, 4) for name, value in zip(names, values, strict=True)}


def totals(found: list[Answered]) -> list[dict[str, Any]]:
    """One row a kind over all sources, devices and engines."""
    kinds: dict[str, list[Answered]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    return [_row(("", "", "", kind), each) for kind, each in sorted(kinds.items())]
