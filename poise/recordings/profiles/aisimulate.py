"""`systems/data/<device>/<kind>/<engine>/<version>/<operator>_perf.parquet`: tables that AISimulate installs, in ms.

They are those of `aiconfigurator` with a folder for each engine and version. What columns a file has changes with its
version: the engine comes from the path, windows are 0 where no column has them, and columns that are not needed are
left out. Of each operator and engine the newest version counts.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from poise.recordings.profiles.aiconfigurator import READERS, Rows

C = pl.col
SOURCE = "aisimulate"
TAIL = "_perf"
ATTENTION = ("context_attention", "generation_attention")

DEEPSEEK_V3 = ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1")
"""Models whose whole latent attention is one kind here; other models' modules have other widths."""


def read(folder: Path) -> Rows:
    """(kind, rows) of every table; of operators without a kind, (name, rows) as they are."""
    newest: dict[tuple[str, ...], Path] = {}
    for path in sorted(folder.glob(f"*/*/*/*/*{TAIL}.parquet")):
        device, kind, engine = path.relative_to(folder).parts[:3]
        at = (device, kind, engine, path.name)
        if at not in newest or _version(path) > _version(newest[at]):
            newest[at] = path
    for (device, _, engine, _), path in sorted(newest.items()):
        yield from _rows(path, device, engine)


def _rows(path: Path, device: str, engine: str) -> Rows:
    name = path.stem.removesuffix(TAIL)
    table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
    if name not in READERS:
        yield name, table
        return
    if name in ATTENTION and "window_size" not in table.columns:
        table = table.with_columns(window_size=pl.lit(0))
    if "model" in table.columns:
        table = table.filter(C("model").is_in(DEEPSEEK_V3))
    framework = "SGLang" if engine == "sglang" else engine  # as modules name it
    table = table.with_columns(framework=pl.lit(framework))
    if table.is_empty():
        return
    about = [
        pl.lit(SOURCE).alias("source"),
        pl.lit(device).alias("device"),
        pl.lit(engine).alias("framework"),
        C("kernel_source").cast(pl.String).alias("kernel"),
    ]
    yield from READERS[name](table, about)


def _version(path: Path) -> tuple[bool, tuple[int, ...], str]:
    """What versions are ordered by: development builds that only have a hash come first."""
    name = path.parent.name
    return name[:1].isdigit(), tuple(map(int, re.findall(r"\d+", name))) if name[:1].isdigit() else (), name
