"""What a part of a device's SMs reaches, fitted to measured steps, with the errors on models and sizes held out.

    python bench/fit_lanes.py llama.json

The file is `examples/placement/llama.json` of hao-ai-lab/MuxServe: milliseconds of prefill and decode steps of LLaMA
7B to 65B on one to eight A100-80GB under MPS, with 30 to 100 % of the SMs, vLLM of early 2024. Compared are ratios: a
step's time with a part of the SMs over its time with all of them, measured and by the roofline, so that the engine's
own level cancels. Fitted is on one GPU alone (7B and 13B); more GPUs only check it, since their collectives and the
host's time, which no share changes, hide the device. Prompts of more than 32,768 tokens in one step are left out:
there the times with all SMs jump to three times the line through the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from math import log
from pathlib import Path
from typing import NamedTuple

import poise
from poise.core.estimate import Chunk, StepShape
from poise.cost.roofline import Roofline, RooflineEstimator

MOST_TOKENS = 32_768
LIMITS = [round(0.05 * 1.05**n, 4) for n in range(90)]
"""Limits that are tried, in steps of 5 %."""


class Row(NamedTuple):
    """A measured step. ratio: its time with `share` of the SMs over that with all."""

    model: str
    gpus: int
    kind: str
    batch: int
    length: int
    share: float
    ratio: float


def rows(path: str) -> list[Row]:
    """All rows of the file whose times are there, with less than all SMs."""
    found = []
    measured = json.loads(Path(path).read_text(encoding="utf-8"))
    for model, by_gpus in measured.items():
        for gpus, by_share in by_gpus.items():
            for share, by_batch in by_share.items():
                for batch, by_length in by_batch.items():
                    for length, times in by_length.items():
                        whole = by_share["100"][batch][length]
                        for kind, time in times.items():
                            row = Row(model, int(gpus), kind, int(batch), int(length), int(share) / 100, 0.0)
                            if share != "100" and min(time, whole[kind]) > 0 and tokens(row) <= MOST_TOKENS:
                                found.append(row._replace(ratio=time / whole[kind]))
    return found


def tokens(row: Row) -> int:
    """New tokens of the step."""
    return row.batch * (row.length if row.kind == "prefill" else 1)


@cache
def estimator(model: str, gpus: int, arithmetic: float, bandwidth: float) -> RooflineEstimator:
    """The roofline of A100s with these limits."""
    name = model.replace("llama-", "llama-1-")
    cluster = poise.Cluster.of("A100", count=gpus).replicas(1, model=name, tensor=gpus)
    return Roofline(share_arithmetic=arithmetic, share_bandwidth=bandwidth).build(cluster.pools[0])


def predicted(row: Row, arithmetic: float, bandwidth: float) -> float:
    """The same ratio by the roofline."""
    return seconds(row, row.share, arithmetic, bandwidth) / seconds(row, 1.0, arithmetic, bandwidth)


def seconds(row: Row, share: float, arithmetic: float, bandwidth: float) -> int:
    """A step's picoseconds by the roofline."""
    steps = estimator(row.model, row.gpus, arithmetic, bandwidth)
    if row.kind == "prefill":
        return steps.step(StepShape(0, (Chunk(row.length, 0),) * row.batch, share)).base
    piece = steps.step(StepShape(row.batch, (), share))
    return piece.base + piece.per_kv * row.batch * row.length


def fit(given: list[Row]) -> tuple[float, float]:
    """(arithmetic, bandwidth): the limits with the least mean of |ln(predicted / measured)|, found in turn."""
    arithmetic = bandwidth = 0.5
    for _ in range(3):
        arithmetic = least(given, lambda limit, row, other=bandwidth: predicted(row, limit, other))
        bandwidth = least(given, lambda limit, row, other=arithmetic: predicted(row, other, limit))
    return arithmetic, bandwidth


def least(given: list[Row], ratio: Callable[[float, Row], float]) -> float:
    """The limit of `LIMITS` with the least error."""
    return min(LIMITS, key=lambda limit: sum(abs(log(ratio(limit, row) / row.ratio)) for row in given))


def errors(given: Iterable[Row], limits: tuple[float, float]) -> str:
    """Median and ninth decile of |predicted / measured - 1| of the ratios, and how many rows these are."""
    found = sorted(abs(predicted(row, *limits) / row.ratio - 1) for row in given)
    if not found:
        return "no rows"
    return f"{statistics.median(found):6.1%} {found[int(0.9 * len(found))]:6.1%}  of {len(found):,}"


def main() -> None:
    """Print the fit, the models held out in turn, and the check on more GPUs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="examples/placement/llama.json of hao-ai-lab/MuxServe")
    every = rows(parser.parse_args().file)
    single = [row for row in every if row.gpus == 1]
    limits = fit(single)
    print(f"limits: arithmetic {limits[0]:.3f}, bandwidth {limits[1]:.3f}")
    for kind in ("prefill", "decoding"):
        print(f"{kind}, one GPU, fitted: {errors([row for row in single if row.kind == kind], limits)}")
    for model in sorted({row.model for row in single}):
        without = fit([row for row in single if row.model != model])
        print(f"{model} held out: limits {without[0]:.3f} and {without[1]:.3f}")
        for kind in ("prefill", "decoding"):
            print(f"  {kind}: {errors([r for r in single if r.model == model and r.kind == kind], without)}")
    for kind, sizes in (("prefill", (1, 2048, MOST_TOKENS + 1)), ("decoding", (1, 64, 2049))):
        for low, high in pairwise(sizes):
            some = [row for row in single if row.kind == kind and low <= tokens(row) < high]
            print(f"{kind} of {low:,} to {high - 1:,} tokens, one GPU: {errors(some, limits)}")
        for gpus in (2, 4, 8):
            some = [row for row in every if row.kind == kind and row.gpus == gpus]
            print(f"{kind} on {gpus} GPUs, not fitted: {errors(some, limits)}")


if __name__ == "__main__":
    main()
