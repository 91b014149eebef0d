"""Fit the collectives of AISimulate's tables: PCIe by its path, newer devices, and exchanges between experts.

    python bench/fit_links.py WHEEL poise/cost/tables/links.json

WHEEL is the folder of an unpacked wheel of `aisimulate` (ai-dynamo/aisimulate, Apache-2.0), in which
`aisimulate_core/systems/data/DEVICE/comm/ENGINE/VERSION/` holds a Parquet file for each operator. Prints the errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from poise.cost.tables import load_tables
from poise.recordings.profiles import aiconfigurator
from poise.recordings.profiles.make import make, save
from poise.recordings.profiles.read import Profiles
from poise.recordings.profiles.rows import GROUPS
from poise.recordings.profiles.show import errors

C = pl.col
SOURCE = "AISimulate's tables of collectives (ai-dynamo/aisimulate, 0.13.0), Apache-2.0"

PCIE = ("l40s", "rtx_pro_6000_server", "b60")
"""Devices of a host without a link of their own."""

OLDER = {"h100_sxm", "h200_sxm", "b200_sxm", "a100_sxm"}
"""Devices of `operators.json`, which lacks only the normal mode of DeepEP on the two of Hopper's generation."""

STAGED = {("rtx_pro_6000_server", version) for version in ("0.19.0", "0.5.10", "1.3.0rc10")}
"""Runs on two devices at 15 GB/s, where the same devices reach 38 directly: through the host's memory."""

ACROSS = {("l40s", version) for version in ("2.27.3", "0.5.10", "0.5.14", "1.0.0", "0.14.0")}
"""Runs in which two devices reach 19 GB/s, four 4 to 5 and eight 1.4 to 2: pairs reach one another, and the rest of the
way leads over processor sockets. Where these devices have one switch they reach 18 to 21 GB/s."""

REPEATED = {("l40s", version) for version in ("0.5.9", "1.3.0rc15", "1.3.0rc20", "0.22.0")}
"""Files that repeat those of other versions."""

LAUNCHED = "2.30.7"
"""A version of NCCL that was timed with the host's launches, 110 µs for the least message."""

LEAST = 40
"""Rows of a kernel for a table: a curve of one or two numbers of ranks."""

OPERATORS = {"custom_allreduce", "nccl", "wideep_deepep_ll", "wideep_deepep_normal"}
INTO = {"prepare": "dispatch", "dispatch": "dispatch", "combine": "combine"}
"""Steps of TensorRT-LLM's exchange over NVLink; preparing is part of dispatching."""


def main() -> int:
    """Fit, print and save."""
    wheel, out = Path(sys.argv[1]), Path(sys.argv[2])
    found: dict[str, list[pl.DataFrame]] = {}
    for kind, rows in tables(wheel / "aisimulate_core" / "systems" / "data"):
        found.setdefault(kind, []).append(rows.filter(C("us") > 0))
    operators = load_tables(links=False).tables
    profiles = Profiles({kind: pl.concat(parts) for kind, parts in sorted(found.items())})
    made = make(profiles, f"{datetime.now(UTC):%Y-%m-%d}", least=LEAST, beside=operators)
    save(made, out)
    print(*errors(made), sep="\n")
    return 0


def tables(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """(kind, rows) of every table that is read."""
    for path in sorted(folder.glob("*/comm/*/*/*_perf.parquet")):
        device, engine, version, name = path.parts[-5], path.parts[-3], path.parts[-2], path.stem.removesuffix("_perf")
        if name == "trtllm_alltoall":
            yield from two_sided(pl.read_parquet(path), device)
            continue
        if name in ("nccl", "oneccl") and (engine != name or version == LAUNCHED):
            continue
        name = name.replace("oneccl", "nccl")
        exchange = name.startswith("wideep")
        lacking = name == "wideep_deepep_normal" and device in ("h100_sxm", "h200_sxm")
        if name not in OPERATORS or (device, version) in REPEATED or (device in OLDER and not lacking):
            continue
        if not exchange and (device, version) not in STAGED | ACROSS and path.parent != widest(path):
            continue
        table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
        for kind, rows in aiconfigurator.READERS[name](table, about(name, device)):
            yield shaped(kind, rows, device, version)


def widest(path: Path) -> Path:
    """The folder of the version whose file has most rows, the last of equals."""
    others = [each for each in path.parents[1].glob(f"*/{path.name}") if each.parent.name != LAUNCHED]
    known = [each for each in others if (path.parts[-5], each.parent.name) not in STAGED | ACROSS | REPEATED]
    return max(known, key=lambda each: (pl.read_parquet(each).height, numbers(each.parent.name))).parent


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers to compare."""
    return tuple(int(part) for part in version.replace("rc", ".").replace("post", ".").split(".") if part.isdigit())


def about(name: str, device: str) -> list[pl.Expr]:
    """The columns that every row has besides its shape and time."""
    engine = C("framework").str.to_lowercase() if name != "nccl" else pl.lit("nccl")
    return [pl.lit(SOURCE).alias("source"), pl.lit(device).alias("device"), engine.alias("framework"), KERNEL]


KERNEL = C("kernel_source").alias("kernel")


def shaped(kind: str, rows: pl.DataFrame, device: str, version: str) -> tuple[str, pl.DataFrame]:
    """Rows under the kind and kernel that they have here, with the columns that all tables of the kind share."""
    rows = rows.filter(~C("kernel").str.contains("eager|int8"), C("nodes") == 1)
    if (device, version) in STAGED:
        kind, rows = "staged_all_reduce", rows.with_columns(pl.lit("nccl").alias("framework"))
    if device in PCIE:
        staged = kind.startswith("staged")
        path = "host" if staged else "sockets" if (device, version) in ACROSS else "direct"
        kind = kind if staged else f"pcie_{kind}"
        rows = rows.with_columns(pl.lit(path).alias("kernel"))
    shape = ("bytes", "ranks") if "bytes" in GROUPS[kind] else ("tokens", "hidden", "topk", "experts", "ranks")
    return kind, rows.select(*ABOUT, *(C(each).cast(pl.Int64) for each in shape), C("us").cast(pl.Float64))


ABOUT = ("source", "device", "framework", "kernel", "format")


def two_sided(table: pl.DataFrame, device: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """TensorRT-LLM's exchange over NVLink by 8 or 4 bits a value, its preparation added to its dispatch."""
    table = table.filter(C("kernel_source") == "NVLinkTwoSided", C("moe_dtype").is_in(["nvfp4", "bfloat16"]))
    step = C("op_name").str.strip_prefix("alltoall_").replace_strict(INTO, default=None)
    names = {"num_tokens": "tokens", "hidden_size": "hidden", "num_experts": "experts", "moe_ep_size": "ranks"}
    shape = ["tokens", "hidden", "topk", "experts", "ranks"]
    steps = table.with_columns(step.alias("kind")).drop_nulls("kind").rename(names)
    whole = steps.group_by("kind", "moe_dtype", *shape, maintain_order=True).agg((C("latency").sum() * 1e3).alias("us"))
    rows = whole.with_columns(
        pl.lit(SOURCE).alias("source"),
        pl.lit(device).alias("device"),
        pl.lit("trtllm").alias("framework"),
        ("NVLink " + C("moe_dtype")).alias("kernel"),
        pl.lit("bf16").alias("format"),
    )
    for kind, part in rows.group_by("kind", maintain_order=True):
        yield str(kind[0]), part.select(*ABOUT, *(C(each).cast(pl.Int64) for each in shape), "us")


if __name__ == "__main__":
    raise SystemExit(main())
