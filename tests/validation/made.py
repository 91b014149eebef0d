"""Rows and folders made up for the tests of validation."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from poise.validation.row import Row

COLUMNS = (
    "row_id", "source", "ref", "engine", "engine_version", "model", "params", "gpu", "n_gpus", "tp", "pp", "ep", "dp",
    "precision", "isl", "osl", "concurrency_or_rate", "max_batch", "metric", "value", "unit", "notes", "mode",
    "quality",
)  # fmt: skip

LINE = {
    "source": "made up", "engine": "vLLM", "engine_version": "0.15.1", "model": "Llama-3.1-8B", "gpu": "H100-SXM-80GB",
    "n_gpus": "1", "tp": "1", "pp": "1", "dp": "1", "precision": "bf16/bf16", "isl": "512", "osl": "64",
    "concurrency_or_rate": "static batch 4", "metric": "tpot_ms", "value": "7", "unit": "ms", "mode": "agg",
    "quality": "A",
}  # fmt: skip


def row(**changes: Any) -> Row:
    """A row of complete conditions with `changes`."""
    given: dict[str, Any] = {
        "place": "t.csv: line 2", "source": "made up", "ref": "", "engine": "vLLM", "version": "0.15.1",
        "model": "Llama-3.1-8B", "device": "H100-SXM-80GB", "devices": 1, "tensor": 1, "pipeline": 1, "expert": 1,
        "data": 1, "precision": "bf16/bf16", "prompt": 512.0, "output": 64.0, "load": "static batch 4", "batch": 0,
        "metric": "tpot_ms", "value": 7.0, "unit": "ms", "notes": "", "disagg": False, "quality": "A",
    }  # fmt: skip
    return Row(**{**given, **changes})


def table(folder: Path, *lines: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    """A folder with `fidelity/serving_e2e.csv` that holds `lines`, each a change of `LINE`; returns the file."""
    path = folder / "fidelity" / "serving_e2e.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**LINE, **line} for line in lines)
    return path
