"""Fills in loads and layouts that a row leaves out: from the source's own workload, or from rows of the same run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from poise.validation.assumptions import NamedLoad, load_named
from poise.validation.row import Row

_WORKLOAD = re.compile(r"\bworkload ([\w-]+)")
_EXPERIMENT = re.compile(r"\bexperiment ([\w.-]+)")
_STAGE = re.compile(r"\bstage (-?\d+)")
_DAY = re.compile(r"\bmeasured (\d{4}-\d\d-\d\d)")
_WORKERS = re.compile(r"prefill workers=.*?; decode workers=.*?\)(?=;|$)")

RUN_BORROWED = "layout of the same run's other row"
"""The note on a row that borrows a layout."""

BORROWED = "lengths and load of workload {}"
"""The note on a row that borrows a load."""


def borrow(rows: Sequence[Row]) -> list[Row]:
    """The rows, those without load, lengths or both filled in where their workload is known.

    A workload is known by its name in the notes (`-lite` variants count as their own, then as their base's): from what
    its source publishes of it (`poise.validation.assumptions`), else from another row that states it. There, rows of
    the same stage and the same model lend first, then the same stage, then any. The engine's limits stay the row's own.
    """
    lenders: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name = _name(row)
        if name and row.load and row.prompt and row.output:
            lenders.setdefault((row.source, name), []).append(row)
    return _laid_out([_filled(row, lenders) for row in rows])


def _laid_out(rows: Sequence[Row]) -> list[Row]:
    """The rows, pools of unstated numbers filled in where a row of the same run states them.

    A run is known by everything but its layout: engine, version, model, device, formats, lengths, load and day.
    """
    known: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row.disagg and _DAY.search(row.notes) and _WORKERS.search(row.notes) and "workers=?" not in row.notes:
            known.setdefault(_run(row), row)
    return [_relaid(row, known.get(_run(row))) if row.disagg and "workers=?" in row.notes else row for row in rows]


def _run(row: Row) -> tuple[object, ...]:
    day = _DAY.search(row.notes)
    stated = (row.source, row.engine, row.version, row.model, row.device, row.precision)
    return (*stated, row.prompt, row.output, row.load, day[1] if day else "")


def _relaid(row: Row, one: Row | None) -> Row:
    if one is None:
        return row
    found = _WORKERS.search(one.notes)
    assert found is not None
    notes = f"{_WORKERS.sub(found[0], row.notes)}; borrowed: {RUN_BORROWED}"
    return replace(row, notes=notes, devices=one.devices, tensor=one.tensor, expert=one.expert, data=one.data)


def borrows(row: Row) -> str:
    """What `row` borrowed; empty where it has its own load."""
    found = re.search(r"; borrowed: (.*)$", row.notes)
    return found[1] if found else ""


def _filled(row: Row, lenders: dict[tuple[str, str], list[Row]]) -> Row:
    name = _name(row)
    if not name:
        return row
    published = load_named(row.source, name)
    if published is not None:
        return _as_published(row, published)
    if row.load and row.prompt and row.output:
        return row
    able = lenders.get((row.source, name)) or lenders.get((row.source, name.removesuffix("-lite"))) or []
    if not able:
        return row
    one = max(
        able, key=lambda other: (_stage(other) == _stage(row), other.model == row.model, other.tensor == row.tensor)
    )
    notes = f"{row.notes}; borrowed: {BORROWED.format(name)}"
    return replace(row, load=one.load, prompt=one.prompt, output=one.output, notes=notes)


def _as_published(row: Row, load: NamedLoad) -> Row:
    """The row with what its source publishes of its workload, where the row does not have it.

    How many prompts there are is the source's word alone: rows repeat what was asked for, not what was sent.
    """
    stage = int(_stage(row) or -1)
    rates = load.rates[stage : stage + 1] or load.rates if stage >= 0 else load.rates
    words = f"all stages: {', '.join(f'{rate:g} req/s' for rate in rates)} for {load.seconds:g} s"
    words = row.load if " for " in row.load else words
    limit = "" if row.batch or "max_num_seqs" in row.notes else f"; max_num_seqs={load.max_sequences}"
    sent = f"; system prompt {load.system}; {load.groups} groups x {load.prompts} prompts{limit}"
    notes = f"{row.notes}{sent}; borrowed: {BORROWED.format(load.name)}: {load.why}"
    return replace(row, load=words, prompt=row.prompt or load.prompt, output=row.output or load.output, notes=notes)


def _name(row: Row) -> str:
    """The workload; a lite variant may be named in the experiment alone."""
    found = _WORKLOAD.search(row.notes)
    if found is None:
        return ""
    experiment, lite = _EXPERIMENT.search(row.notes), f"{found[1]}-lite"
    return lite if experiment and lite in experiment[1] else found[1]


def _stage(row: Row) -> str:
    found = _STAGE.search(row.notes)
    return found[1] if found else ""
