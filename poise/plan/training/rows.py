"""Layouts of a training run as rows of tables, frames and tidy figures, and the sentence that decides between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from poise.cost.training import Job, Prediction
from poise.report.tidy import Row

HEAD = ("layout", "step s", "tokens/s/device", "MFU", "memory GiB", "bubble", "exposed")
GIB = 2**30
BINDING = {
    "compute": "the devices' arithmetic",
    "exposed_in_layers": "collectives inside layers",
    "bubble": "the pipeline's filling and draining",
    "messages": "messages between stages",
    "gradients": "the sum of gradients",
    "optimizer": "the optimizer",
    "fixed": "fixed costs of a step",
}
"""Parts of a step in words."""

UNITS = {
    "step_s": "s", "tokens_per_s_per_device": "tok/s", "mfu": "1", "hfu": "1", "memory_bytes": "B", "bubble": "1",
    "exposed": "1",
}  # fmt: skip
"""The figures of a layout, with their units."""


def decided(job: Job, best: Prediction, others: Sequence[Prediction]) -> str:
    """The sentence that decides: the layout, its step, what binds it, its free memory and the next of another kind."""
    free = 1 - best.memory / job.device.memory_bytes
    parts = [
        f"Take {best.layout.label()}: {best.seconds:.3f} s a step on {job.devices} {job.device.name}, "
        f"MFU {best.mfu:.1%}, {free:.0%} of memory free",
        f"most is lost to {binding(best)}",
    ]
    if others:
        other = others[0]
        parts.append(f"the next of another kind, {other.layout.label()}, is {slower(other, best)}")
    return f"{'; '.join(parts)}."


def slower(other: Prediction, best: Prediction) -> str:
    """How much longer, or shorter, another layout's step takes."""
    more = other.seconds / best.seconds - 1
    return f"{abs(more):.1%} {'slower' if more >= 0 else 'faster'}"


def binding(best: Prediction) -> str:
    """The largest loss besides arithmetic."""
    name, lost = max(((n, s) for n, s in best.parts.items() if n != "compute"), key=lambda part: part[1])
    return f"{BINDING[name]} ({lost / best.seconds:.1%} of the step)"


def cells(each: Prediction) -> Sequence[str]:
    """A layout's row under `HEAD`."""
    return (
        each.layout.label(), f"{each.seconds:.3f}", f"{each.tokens_per_device:,.0f}", f"{each.mfu:.1%}",
        f"{each.memory / GIB:.1f}", f"{each.bubble:.1%}", f"{each.exposed:.1%}",
    )  # fmt: skip


def figures(each: Prediction) -> dict[str, float]:
    """The figures of a layout by name, in the units of `UNITS`."""
    return {
        "step_s": each.seconds, "tokens_per_s_per_device": each.tokens_per_device, "mfu": each.mfu, "hfu": each.hfu,
        "memory_bytes": each.memory, "bubble": each.bubble, "exposed": each.exposed,
    }  # fmt: skip


def record(each: Prediction) -> dict[str, Any]:
    """A plain row: the layout in words and by its degrees, then its figures."""
    about = {name: value for name, value in asdict(each.layout).items() if name != "split"}
    return {"layout": each.layout.label(), **about, **figures(each)}


def tidy(found: Iterable[Prediction]) -> Iterator[Row]:
    """A row for each figure of each layout."""
    for each in found:
        for name, value in figures(each).items():
            yield Row(each.layout.label(), None, None, None, name, UNITS[name], float(value))
