"""Child process: one schedule of sail-sg's zero-bubble-pipeline-parallelism, as JSON; run by `sail.py`.

    python sail_run.py CHECKOUT NAME RANKS MICROBATCHES F,… B,… W,… COMM

Its modules are loaded by themselves, without the package around them, which needs GPUs; what they import of torch and
pulp is not used to schedule.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

PACKAGE = "megatron.core.pipeline_parallel.zerobubble.scheduler"


def stand_in(checkout: Path) -> None:
    """Packages whose `__init__` is left out, and two libraries that are only named."""
    parts = PACKAGE.split(".")
    for count in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:count]))
        package.__path__ = [str(checkout.joinpath(*parts[:count]))]
        sys.modules[package.__name__] = package
    for name in ("torch", "pulp"):
        library: Any = ModuleType(name)
        library.Tensor, library.value = object, lambda each: each
        sys.modules[name] = library


def orders(name: str, ranks: int, count: int, f: list[float], b: list[float], w: list[float], comm: float) -> Any:
    """Each rank's nodes; a scheduler that takes one time for all stages gets the mean, of half a stage where V."""
    graph = import_module(f"{PACKAGE}.graph")
    chunks = 1 if name in ("zb_1p", "zb_2p") else 2
    mean = [sum(each) / len(each) / chunks for each in (f, b, w)]
    room = float(ranks * (2 if name == "zb_2p" else 1))
    config = graph.GraphConfig(
        mem_f=[1.0] * ranks, mem_b=[0.0] * ranks, mem_w=[-1.0] * ranks, cost_f=f, cost_b=b, cost_w=w, cost_comm=comm,
        max_mem=[room] * ranks, max_chunks=chunks, n_stages=ranks, n_micro=count,
    )  # fmt: skip
    if chunks == 1:
        return import_module(f"{PACKAGE}.zb").create_schedule(config)
    if name == "zb_v":
        return (
            import_module(f"{PACKAGE}.zbv").PipelineGraph(ranks, count, *mean, comm, 1, 0, -1).create_schedule(config)
        )
    if name == "v_auto":
        return import_module(f"{PACKAGE}.v_auto_schedule").schedule(ranks, count, (*mean, comm), 2 * ranks)
    greedy = import_module(f"{PACKAGE}.zbv_greedy")
    return greedy.PipelineGraph(ranks, count, name.removeprefix("v_"), *mean, comm).create_schedule(config)


def stage_of(node: Any, ranks: int) -> int:
    """The stage of a node; v_auto tells rank and chunk alone."""
    stage = getattr(node, "layer_group_idx", None)
    if stage is not None:
        return int(stage)
    far = node.chunk != (node.type == "W")
    return int(2 * ranks - 1 - node.stage if far else node.stage)


def main() -> None:
    """Schedule, and tell how long that took."""
    checkout, name, ranks, count, *times, comm = sys.argv[1:]
    stand_in(Path(checkout))
    f, b, w = ([float(each) for each in column.split(",")] for column in times)
    began = perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        found = orders(name, int(ranks), int(count), f, b, w, float(comm))
    made = perf_counter() - began
    letters = {"F": "F", "B": "I", "W": "W"}
    rows = [
        [f"{stage_of(node, int(ranks))}{letters[str(node.type)]}{getattr(node, 'microbatch', 0)}" for node in row]
        for row in found
    ]
    json.dump({"made_s": made, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
