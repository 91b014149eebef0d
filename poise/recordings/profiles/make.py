"""Makes tables from profiles: what to fit together, the errors of the fits, and the file that ships."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poise.cost.grid import Axis, pack
from poise.cost.operator import FORMATS, OPERATORS
from poise.cost.tables import FIGURES, KIND, SCHEMA, Table, Tables
from poise.experiment.progress import Meter
from poise.recordings.profiles.bounds import known_device
from poise.recordings.profiles.bulk import predict
from poise.recordings.profiles.fitting import START, Fitted, fit_table
from poise.recordings.profiles.loans import UNKNOWN, Part, error_of, lend
from poise.recordings.profiles.read import Profiles
from poise.recordings.profiles.rows import ABOUT, GROUPS, coordinates

C = pl.col

LEAST_ROWS = 60
"""Least rows of a kernel for a table."""

FIT_ROWS = 12_000
CHECK_ROWS = 4_000
"""Rows that a table and each of its checks are fitted to at most, drawn evenly."""

FOLDS = 5

SOURCES: dict[str, str] = {
    "gpu_op_profiles": "AIConfigurator performance database (ai-dynamo/aiconfigurator), Apache-2.0",
    "vidur_profiles": "Vidur profiles (microsoft/vidur; A30: AKafakA/vidur_opt_scheduler), MIT",
    "vllm_layer_profiles": "LLMServingSim profiles of vLLM 0.19 (casys-kaist/LLMServingSim), MIT",
}
"""What the shipped tables are fitted to: sources whose licences allow it, each named with its licence."""


EXTERNAL = "systems/data"
"""The folder of tables that another package installs: read where a user gives it, never shipped."""


def fitted_to(folder: Path) -> tuple[str, ...]:
    """The layouts of `folder` to fit to: all but the mixed table of `fidelity`, unless there is no other.

    That table samples the others, so that it serves to judge what was fitted to them.
    """
    return tuple(name for name in (*SOURCES, EXTERNAL) if (folder / name).is_dir()) or ("fidelity",)


def parts(profiles: Profiles, least: int = LEAST_ROWS) -> Iterator[Part]:
    """Rows by kind, device, engine, format and kernel, those of fewer than `least` or of no known device left out."""
    keys = list(ABOUT[1:])
    for kind, rows in profiles.rows.items():
        if kind not in OPERATORS:
            continue
        if "nodes" in rows.columns:
            rows = rows.filter(C("nodes") == 1, ~C("kernel").str.contains("pairwise"))
        for key, group in rows.group_by(keys, maintain_order=True):
            name, framework, form, kernel = (str(each) for each in (key[0], key[1], key[3], key[2]))
            device = known_device(name)
            if device is None or form not in FORMATS or group.height < least:
                continue
            taken = group.gather_every(max(1, -(-group.height // FIT_ROWS)))
            family = GROUPS[kind] if taken.select(GROUPS[kind]).n_unique() > 1 else coordinates(kind, taken).columns
            fold = taken.with_columns(coordinates(kind, taken)).select(pl.struct(family).hash(seed=7) % FOLDS)
            table = Table(kind, device.name, framework, form, kernel, group.height, START, (), "", "", UNKNOWN, UNKNOWN)
            seconds = taken["us"].to_numpy() * 1e-6
            yield Part(table, device, coordinates(kind, taken).to_numpy(), seconds, fold.to_series().to_numpy())


def make(
    profiles: Profiles,
    date: str,
    progress: Meter | None = None,
    *,
    least: int = LEAST_ROWS,
    beside: Sequence[Table] = (),
) -> Tables:
    """Fit all tables, judge each by held-out shapes and by devices that it stands in for.

    least: rows of a kernel for a table.  beside: tables that may lend as well, of devices that have profiles.
    """
    every = list(parts(profiles, least))
    made: list[Table] = []
    for at, part in enumerate(every):
        made.append(_fitted(part))
        if progress is not None:
            progress("operator tables", at + 1, len(every))
    devices = {part.device.name: part.device for part in every}
    used = {source for rows in profiles.rows.values() for source in rows["source"].unique()}
    about = {"date": date, "sources": [SOURCES.get(source, source) for source in sorted(used)]}
    return lend(Tables(tuple(made), devices, about), every, [table for table in beside if table.device in devices])


def _fitted(part: Part) -> Table:
    kind, form = part.table.operator, part.table.format
    figures = kind.figures(part.device, form)
    whole = fit_table(kind, form, figures, part.at, part.seconds)
    step = max(1, -(-len(part.seconds) // CHECK_ROWS))
    at, seconds, fold = part.at[::step], part.seconds[::step], part.fold[::step]
    errors = []
    for held in range(FOLDS):
        kept = fold != held
        if kept.all() or kept.sum() < min(LEAST_ROWS, len(kept)) // 2:
            continue
        table = _filled(part.table, fit_table(kind, form, figures, at[kept], seconds[kept]))
        errors.append(np.abs(predict(table, figures, at[~kept]) / seconds[~kept] - 1))
    return replace(_filled(part.table, whole), error=error_of(np.concatenate(errors)) if errors else UNKNOWN)


def _filled(table: Table, fitted: Fitted) -> Table:
    bits = np.packbits(np.array(fitted.seen), bitorder="little").tobytes()
    seen = b64encode(bits).decode()
    return replace(table, shape=fitted.shape, axes=fitted.grid.axes, values=pack(fitted.grid.values), seen=seen)


def save(tables: Tables, path: Path) -> None:
    """Write tables as JSON, a loan and a table a line."""
    fields: dict[str, Any] = {"kind": KIND, "schema": SCHEMA, **tables.about}
    fields["devices"] = [
        {"name": each.name, "vendor": each.vendor, **{name: getattr(each, name) for name in FIGURES}}
        for each in tables.devices.values()
    ]
    head = json.dumps(fields, ensure_ascii=False, indent=1)
    loans = _lines([*loan[:3], *loan.error] for loan in tables.loans)
    rows = _lines(map(_row, tables.tables))
    text = f'{head[:-2]},\n "loans": [\n{loans}\n],\n "tables": [\n{rows}\n]\n}}\n'
    path.write_text(text, encoding="utf-8")


def _lines(rows: Iterable[object]) -> str:
    """Rows of JSON, one a line."""
    return ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)


def _row(table: Table) -> dict[str, Any]:
    def axis(each: Axis) -> list[float]:
        return [each.low, each.step, each.count]

    return {
        "kind": table.kind,
        "device": table.device,
        "framework": table.framework,
        "format": table.format,
        "kernel": table.kernel,
        "rows": table.rows,
        "shape": list(table.shape),
        "axes": [axis(each) for each in table.axes],
        "values": table.values,
        "seen": table.seen,
        "error": list(table.error),
        "lent": list(table.lent),
    }
