"""Measured times of one layer by batch or tokens (Helix's profiles), compared with the estimator's cost of a layer."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from poise.core.errors import PoiseError, TraceError, UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.layer import resized
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.scenario.engine_cost import cost_for
from poise.validation.answer import Answer
from poise.validation.assumptions import named_device, named_model
from poise.validation.row import Row
from poise.workload.readers.inflate import gunzip

SOURCE = "helix_profiles"
FILE = Path("helix_profiles") / "batch_to_time.csv.gz"
PROFILED = ("vllm", "0.4")
"""The engine that was profiled (Helix, arXiv 2406.01566, section 5)."""

CONTEXT = 763 + 232 // 2
"""Tokens behind a decode: the mean prompt and half the mean output of the requests that Helix is measured with (Azure's
conversations, section 6.1). Its profiles name none; those of A100, L4 and T4 agree on about 900."""

_NEEDED = ("model", "machine", "phase", "batch_or_tokens", "time_ms")
_SEVERAL = re.compile(r"^(.*?)x(\d+)$")


def read_stages(path: Path, tables: str = "") -> tuple[list[Answer], list[str]]:
    """Answers for the rows of a table of layer times, and a line for each that cannot be read.

    tables: a file of operator tables; "" takes those that ship.
    TraceError where the file cannot be read or lacks a column. Rows of no tokens or no time are left out.
    """
    try:
        table = csv.DictReader(io.StringIO(gunzip(path.read_bytes(), path).decode()))
        lines = list(table)
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read ({error}); give a gzipped CSV table of layer times") from error
    missing = [name for name in _NEEDED if name not in (table.fieldnames or ())]
    if missing:
        raise TraceError(f"{path}: column {missing[0]} is missing; layer times have {', '.join(_NEEDED)}")
    answers: list[Answer] = []
    faults: list[str] = []
    for number, fields in enumerate(lines, 2):
        try:
            tokens, time_ms = int(fields["batch_or_tokens"]), float(fields["time_ms"])
        except (TypeError, ValueError):
            faults.append(f"{path.name}: line {number}: batch_or_tokens and time_ms must be numbers")
            continue
        if tokens > 0 and time_ms > 0:
            answers.append(_answer(_row(f"{path.name}: line {number}", fields, tokens, time_ms), tables))
    return answers, faults


def _row(place: str, fields: Mapping[str, str], tokens: int, time_ms: float) -> Row:
    several = _SEVERAL.match(fields["machine"])
    device, count = (several[1], int(several[2])) if several else (fields["machine"], 1)
    return Row(
        place=place, source=SOURCE, ref="", engine="not stated", version="", model=fields["model"].replace("_", "-"),
        device=device, devices=count, tensor=count, pipeline=1, expert=0, data=1, precision="", prompt=0.0, output=0.0,
        load=f"{fields['phase']} {tokens}", batch=tokens, metric=f"layer_{fields['phase']}_ms", value=time_ms,
        unit="ms", notes="", disagg=False, quality="B",
    )  # fmt: skip


def _answer(row: Row, tables: str) -> Answer:
    try:
        seconds = _layer_s(row.model, row.device, row.tensor, row.load.split()[0], row.batch, tables)
    except UserError as error:
        return Answer(row, why=str(error))
    except PoiseError as error:
        return Answer(row, why=str(error))
    return Answer(row, seconds * 1e3, assumed=("weights of 16 bits", f"contexts of decodes not stated: {CONTEXT}"))


@cache
def _layer_s(model: str, device: str, tensor: int, phase: str, tokens: int, tables: str) -> float:
    """Seconds of one layer: a model of twice the layers less the model itself, over its layers."""
    found, machine = named_model(model), named_device(device)[0]
    shape = StepShape(tokens) if phase == "decode" else StepShape(0, (Chunk(tokens, 0),))
    once, twice = (
        _seconds(Pool(replace(found, layers=n, stack=resized(found.stack, n)), machine, tensor=tensor), shape, tables)
        for n in (found.layers, 2 * found.layers)
    )
    return (twice - once) / found.layers


def _seconds(pool: Pool, shape: StepShape, tables: str) -> float:
    piece = cost_for(pool, *PROFILED, tables).step(shape)
    return (piece.base + piece.per_kv * shape.decodes * CONTEXT) / SECOND
