"""What tables measure of training runs, as seconds of a step and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from poise.cost.training import Job
from poise.cost.training.flops import model_flops, narayanan
from poise.validation.training.read import Row, positive
from poise.validation.training.words import SilentError

CAUSAL = ("Megatron", "Automodel", "tpu-recipes", "maxtext")
"""Sources whose FLOP count only the keys that a token may see: Megatron-LM's since 2025, MaxText's."""
SECONDS = {"s": 1.0, "ms": 1e-3, "min": 60.0}
BYTES = {"b": 1.0, "mb": 1e6, "mib": 2.0**20, "gb": 1e9, "gib": 2.0**30}


def _throughput(row: Row, job: Job) -> float:
    """Tokens or samples a second, of a device or of all."""
    unit, rate = row["unit"], positive("value", row["value"])
    if unit.startswith("k "):
        unit, rate = unit[2:], rate * 1e3
    devices = job.devices if unit.lower().endswith(("/gpu", "/chip", "/device")) else 1
    if unit.startswith(("samples/s", "sequences/s")):
        return job.batch / (rate * devices)
    if unit.startswith("tokens/s"):
        return job.tokens / (rate * devices)
    raise SilentError(f"throughput in {row['unit']!r} is not understood")


def _seconds(row: Row, job: Job) -> float:
    if row["unit"] not in SECONDS:
        raise SilentError(f"a time in {row['unit']!r} is not understood")
    return positive("value", row["value"]) * SECONDS[row["unit"]]


def _equation(row: Row, job: Job) -> float:
    """TFLOP/s by eq. (3) of Narayanan et al., recomputation included, back to seconds."""
    flops = narayanan(job.batch, job.sequence, job.model.layers, job.model.hidden, job.model.vocab)
    return flops / (positive("value", row["value"]) * 1e12 * job.devices)


def _model_flops(rate: float, row: Row, job: Job) -> float:
    causal = any(each in row["source"] for each in CAUSAL)
    return model_flops(job.model, job.sequence, causal=causal) * job.tokens / (rate * job.devices)


def _tflops(row: Row, job: Job) -> float:
    return _model_flops(positive("value", row["value"]) * 1e12, row, job)


def _utilisation(row: Row, job: Job) -> float:
    return _model_flops(positive("value", row["value"]) / 100 * job.peak, row, job)


STEPS: dict[str, Callable[[Row, Job], float]] = {
    "iteration_time": _seconds,
    "throughput": _throughput,
    "TFLOPs_per_GPU": _equation,
    "model_TFLOPs": _tflops,
    "MFU": _utilisation,
}
"""Metrics that give a step's seconds, the most direct first: of one run only the first is read."""


def _bytes(row: Row) -> float:
    unit = row["unit"].lower()
    if unit not in BYTES:
        raise SilentError(f"memory in {row['unit']!r} is not understood")
    return positive("value", row["value"]) * BYTES[unit]


def value_of(row: Row, job: Job) -> float:
    """Seconds of a step, or bytes."""
    return _bytes(row) if row["metric"] == "peak_memory" else STEPS[row["metric"]](row, job)


def read_once(rows: Iterable[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Of the rows of each run those that say most directly how long a step took, and what memory it needed."""
    order = list(STEPS)
    listed = [(place, row) for place, row in rows if row.get("metric") == "peak_memory" or row.get("metric") in STEPS]
    best: dict[tuple[str, ...], int] = {}
    for _, row in listed:
        if row["metric"] in STEPS:
            rank = order.index(row["metric"])
            best[_run(row)] = min(rank, best.get(_run(row), rank))
    return [
        (place, row) for place, row in listed
        if row["metric"] == "peak_memory" or order.index(row["metric"]) == best[_run(row)]
    ]  # fmt: skip


def _run(row: Row) -> tuple[str, ...]:
    """What names a run: all of its conditions."""
    return tuple(value for name, value in row.items() if name not in ("metric", "value", "unit"))
