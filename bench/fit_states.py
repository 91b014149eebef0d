"""Print what kernels of recurrent layers reach: decoding updates, convolutions and chunked scans.

    python bench/fit_states.py FOLDER

FOLDER holds AISimulate's operator tables as its wheel has them: DEVICE/KIND/ENGINE/VERSION/OP_perf.parquet. Each line
is one kernel on one device; the last lines are medians over kernels and devices, each of which counts once.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from poise.catalogue.devices import device

DEVICES = {
    "h100_sxm": "H100",
    "h200_sxm": "H200",
    "b200_sxm": "B200",
    "b300_sxm": "B300",
    "gb200": "GB200",
    "gb300": "GB300",
    "l40s": "L40S",
}
LARGE = {"state_stream": 2e8, "convolution": 3e7, "scan_flops": 1e11}
"""Bytes, or FLOP, from which a row counts: smaller ones are mostly their fixed time."""

Reached = tuple[str, str, str, float]
"""Coefficient, device, kernel, and the fraction of the datasheet figure."""


def main() -> None:
    """All kernels, then the medians."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for path in sorted(Path(sys.argv[1]).glob("*/*/*/*/*_perf.parquet")):
        if path.name in ("gdn_perf.parquet", "kda_perf.parquet") and path.parts[-5] in DEVICES:
            for name, *rest, reached in rows(path):
                found[name, *rest].append(reached)
    for (name, *where), each in sorted(found.items()):
        print(f"{name:13} {' '.join(where):64} {len(each):5} rows  {median(each):.3f}")
    for name in LARGE:
        each = [median(values) for key, values in found.items() if key[0] == name]
        print(f"{name:13} median of {len(each)} kernels  {median(each):.3f}, {min(each):.3f} to {max(each):.3f}")


def rows(path: Path) -> Iterator[Reached]:
    """What large rows of a table reach."""
    here, engine = path.parts[-5], path.parts[-3]
    figures = device(DEVICES[here])
    for row in pl.read_parquet(path).iter_rows(named=True):
        name, work = counted(row)
        peak = figures.bf16_flops if name == "scan_flops" else figures.memory_bw
        reached = work / (row["latency"] * 1e-3) / peak
        if work >= LARGE[name] and reached <= 1:  # beyond the datasheet: from a cache, or of another format
            yield name, here, f"{engine} {row['kernel_source']}", reached


def counted(row: dict[str, Any]) -> tuple[str, float]:
    """The coefficient of a row, and its work as the cost model counts it: bytes, or FLOP of a scan."""
    prompt, keys = row["phase"] == "context", row["num_k_heads"] * row["head_k_dim"]
    values = row["num_v_heads"] * row["head_v_dim"]
    tokens = row["batch_size"] * row["seq_len"] if prompt else row["batch_size"]
    if "conv1d" in row["kernel_source"]:
        channels = 2 * keys + values
        return "convolution", 4.0 * tokens * channels if prompt else 0.0
    matrices = values * row["head_k_dim"]
    if prompt:
        return "scan_flops", 4.0 * tokens * matrices if row["batch_size"] >= 8 else 0.0
    return "state_stream", 8.0 * tokens * matrices if row["phase"] == "generation" else 0.0


if __name__ == "__main__":
    main()
