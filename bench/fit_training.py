"""Fit what kernel tables do not tell of training (`poise/cost/training/figures.json`) over measured runs.

    python bench/fit_training.py DATA --begin poise/cost/training/figures.json --held-out

This writes `figures.json`, which nothing else does, and prints the error of each source and how far each figure is from
where fitting begins. Nothing is drawn at random. The least squares of log ratios under a soft loss; every source weighs
the same, whatever its rows. Runs whose licence forbids more than study (Llama layouts, CC BY-NC-SA) are left out and
only validated against. `--held-out` fits again without each group of runs (a source, its cluster, each model) and
prints how far the group's answers are off by that fit and by the one over all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from poise.core.errors import PoiseError
from poise.cost.training.columns import columns
from poise.cost.training.figures import SHIPPED, Figures
from poise.cost.training.layout import check
from poise.cost.training.step import evaluate
from poise.validation.training.answer import read_runs
from poise.validation.training.run import Run

NOT_FITTED = ("llama_layouts_a100",)
HOSTS = {
    "profiled": ("forward_s", "backward_s", "launch_s", "step_s", "gemm", "core", "scores", "loss", "near"),
    "composer": (
        "gemm_new",
        "flash",
        "flash2_new",
        "flash_back",
        "forward_s",
        "backward_s",
        "step_s",
        "gather",
        "beside",
        "gemm_fp8",
        "casts",
    ),
    "torch": ("gemm_new", "forward_s", "backward_s", "step_s", "gather", "casts", "tensor_new"),
    "launched": ("moe_s", "dispatch"),
    "captured": ("forward_s", "backward_s", "moe_s", "dispatch"),
    "graphs": ("forward_s", "backward_s", "launch_s", "step_s", "chunk_s"),
}
"""Software whose launching, or kernels profiled alone, have figures of their own."""
DATE = "2026-11-27"
SOURCES = [
    "vTrain's runs (VIA-Research/vTrain), MIT",
    "MPT runs (mosaicml/llm-foundry), Apache-2.0",
    "tables of arXiv 2401.10241, 2104.04473 and 2504.14960, figures only",
    "performance pages of Megatron-Bridge and AutoModel (NVIDIA-NeMo), Apache-2.0",
    "tables of Megatron-LM's examples and of Megatron-MoE-ModelZoo, figures only",
    "torchtitan's benchmarks (pytorch/torchtitan), BSD-3-Clause",
    "MLPerf Training 4.1 to 5.1 (mlcommons/training_results), Apache-2.0; derived, not verified by MLCommons",
    "tpu-recipes and MaxText (AI-Hypercomputer), Apache-2.0; one run of a pull request of huggingface/trl",
]
"""What the figures are fitted to."""
FIXED = ("framework", "fragment", "tensor", "eager")
"""Of these no run tells: stated in `Figures`."""
STEP = 0.02
SOFT = 0.06
"""The relative error at which a run begins to count less than its square."""
TIGHT = {"stream": 0.06, "gemm_new": 0.04, "gemm_blackwell": 0.04, "near": 0.03}
"""Figures that other ones would take up. Light kernels, and collectives in a server: near what profiles say. Products
in 16 bits on newer devices: most runs have narrow ones, and those of Composer and torch, which are in 16 bits, are 1.24
and 1.33 times as long."""
PRIOR = 0.35
"""Standard deviation of a figure's logarithm around where it starts: runs that say nothing of it leave it there."""
OWN = 1.2
"""The same of software's own figures, which many runs tell and nothing else does."""
OWN_MOST, HOST_TRIES = 400, 4
MOST = 150
"""Runs of a source that take part; of more, every so-manieth."""

Values = np.ndarray[Any, np.dtype[np.float64]]


def fitted(data: Path) -> list[Run]:
    """The runs to fit to."""
    return [
        run for run in read_runs(data)[0]
        if run.metric == "step_time" and run.job is not None and run.source not in NOT_FITTED
        and not (run.source == "megatron_bridge" and run.job.attention == "fused")  # kernels of sinks are guessed at
    ]  # fmt: skip


def thinned(runs: Sequence[Run]) -> list[Run]:
    """At most `MOST` runs of each source, evenly chosen."""
    found: list[Run] = []
    for source in sorted({run.source for run in runs}):
        own = [run for run in runs if run.source == source]
        found += own[:: -(-len(own) // MOST)]
    return found


@cache
def names() -> list[tuple[str, str]]:
    """Figures that are fitted, each with the software that it is for."""
    own = [("", name) for name in asdict(Figures()) if name not in FIXED]
    return [*own, *((host, name) for host, parts in HOSTS.items() for name in parts)]


def start() -> Values:
    """Logarithms of the figures where fitting begins."""
    values = asdict(Figures())
    return np.log([values[name] for _, name in names()])


def begun(path: Path | None) -> Values:
    """The point of an earlier fit, or where fitting begins."""
    if path is None:
        return start()
    saved = json.loads(path.read_text(encoding="utf-8"))
    return np.log([(saved["hosts"][host] if host else saved["figures"])[name] for host, name in names()])


def figures_of(x: Values) -> Callable[[str], Figures]:
    """Figures by software from a point."""
    plain, hosts = {}, {host: {} for host in HOSTS}  # type: ignore[var-annotated]
    for (host, name), value in zip(names(), np.exp(x), strict=True):
        (hosts[host] if host else plain)[name] = float(value)
    made = {"": Figures(**plain)} | {host: replace(Figures(**plain), **own) for host, own in hosts.items()}
    return lambda host: made[host]


def off(runs: Sequence[Run], use: Callable[[str], Figures]) -> Values:
    """Log ratios of predicted over measured; those that cannot be laid out are 0."""
    found = []
    for run in runs:
        assert run.job is not None and run.layout is not None
        try:
            check(run.job, run.layout)
            steps = evaluate(run.job, columns(run.job, [run.layout]), use(run.job.host), memory=False)
            found.append(np.log(float(steps.seconds[0]) / run.value))
        except PoiseError:
            found.append(0.0)
    return np.array(found)


class Slopes:
    """Derivatives of log ratios by log figures; runs that a figure did not move once are not run for it again."""

    def __init__(self, runs: Sequence[Run], free: Sequence[int] | None = None) -> None:
        self.runs = runs
        self.free = range(len(names())) if free is None else free
        self.moved: dict[int, list[int]] = {}

    def __call__(self, x: Values) -> tuple[Values, Values]:
        """Log ratios and their derivatives."""
        here = off(self.runs, figures_of(x))
        found = np.zeros((len(here), len(x)))
        for at in self.free:
            rows = self.moved.get(at, [row for row, run in enumerate(self.runs) if _concerns(at, run)])
            there = x.copy()
            there[at] += STEP
            moved = off([self.runs[row] for row in rows], figures_of(there)) - here[rows]
            found[rows, at] = moved / STEP
            self.moved.setdefault(at, [row for row, by in zip(rows, moved, strict=True) if abs(by) > 1e-7])
        return here, found


def _concerns(at: int, run: Run) -> bool:
    """Whether a figure is for the software of a run: its own ones stand before those of all."""
    host, name = names()[at]
    own = run.job.host if run.job is not None else ""
    return host == own if host else name not in HOSTS.get(own, ())


def weights(runs: Sequence[Run]) -> Values:
    """What each run counts: a source with many runs no more than one with forty."""
    counts = {source: sum(run.source == source for run in runs) for source in {run.source for run in runs}}
    return np.array([min(1.0, np.sqrt(40 / counts[run.source])) for run in runs])


def solved(x: Values, ratios: Values, by: Values, counts: Values) -> Values:
    """The next point: one step of soft least squares with priors around where figures start."""
    prior = np.array([OWN if host else TIGHT.get(name, PRIOR) for host, name in names()])
    weight = counts / SOFT / (1 + (ratios / SOFT) ** 2) ** 0.25
    rows = np.concatenate([by * weight[:, None], np.diag(1 / prior)])
    wanted = np.concatenate([-ratios * weight, (start() - x) / prior])
    return x + np.clip(np.linalg.lstsq(rows, wanted, rcond=None)[0], -0.4, 0.4)


def fit(slopes: Slopes, begin: Values, tries: int) -> Values:
    """The point of least squares."""
    x, counts = begin.copy(), weights(slopes.runs)
    for _ in range(tries):
        x = solved(x, *slopes(x), counts)
    return x


def of_hosts(runs: Sequence[Run], begin: Values, tries: int) -> Values:
    """The same for the figures of software's own alone, over all runs of it: no other run tells of them."""
    x = begin.copy()
    for host in HOSTS:
        own = [run for run in runs if run.job is not None and run.job.host == host]
        own = own[:: -(-len(own) // OWN_MOST)]
        free = [at for at, (of, _) in enumerate(names()) if of == host]
        slopes = Slopes(own, free)
        for _ in range(tries):
            there = solved(x, *slopes(x), np.ones(len(own)))
            x[free] = there[free]
    return x


def written(ratios: Values) -> str:
    """Bias, median and 90th percentile of relative errors."""
    errors = np.exp(ratios) - 1
    median, p90 = np.quantile(abs(errors), (0.5, 0.9))
    return f"n {len(ratios):4}  bias {np.median(errors):+.3f}  median {median:.3f}  p90 {p90:.3f}"


def held_out(slopes: Slopes, x: Values) -> None:
    """Fit without each source, cluster and model, by the slopes at `x`, and answer what was left out."""
    runs = slopes.runs
    ratios, by = slopes(x)
    for what in ("source", "cluster", "model"):
        total: list[float] = []
        for name in sorted({getattr(run, what) for run in runs}):
            out = np.array([getattr(run, what) == name for run in runs])
            kept, there = [run for run, left in zip(runs, out, strict=True) if not left], x.copy()
            for _ in range(5):
                there = solved(there, ratios[~out] + by[~out] @ (there - x), by[~out], weights(kept))
            own = [run for run, left in zip(runs, out, strict=True) if left]
            missed = off(own, figures_of(there))
            total += missed.tolist()
            print(f"held out {what} {name:40} {written(missed)}", flush=True)
            print(f"  fitted {what} {name:40} {written(ratios[out])}", flush=True)
        print(f"held out {what}, all{'':35} {written(np.array(total))}")


def main() -> None:
    """Fit, write and say how far."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--begin", type=Path, help="figures of an earlier fit to go on from")
    parser.add_argument("--tries", type=int, default=12)
    parser.add_argument("--held-out", action="store_true", help="also fit without each source, cluster and model")
    wish = parser.parse_args()
    every = fitted(wish.data)
    runs = thinned(every)
    slopes = Slopes(runs)
    x = of_hosts(every, fit(slopes, begun(wish.begin), wish.tries), HOST_TRIES)
    use = figures_of(x)
    for source in sorted({run.source for run in every}):
        own = [run for run in every if run.source == source]
        print(f"{source:24} {written(off(own, use))}", flush=True)
    for (host, name), before, after in zip(names(), np.exp(start()), np.exp(x), strict=True):
        print(f"{host:20} {name:14} {before:10.4g} -> {after:10.4g}")
    result = {
        "kind": "training figures",
        "date": DATE,
        "sources": SOURCES,
        "figures": {
            name: float(f"{value:.4g}") for (host, name), value in zip(names(), np.exp(x), strict=True) if not host
        },
        "hosts": {
            host: {name: float(f"{v:.4g}") for (h, name), v in zip(names(), np.exp(x), strict=True) if h == host}
            for host in HOSTS
        },
    }
    wish.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if wish.held_out:
        held_out(slopes, x)


if __name__ == "__main__":
    main()
