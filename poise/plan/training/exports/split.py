"""The layers of each stage, for trainers that take an explicit split."""

from __future__ import annotations

from itertools import accumulate, groupby

from poise.core.errors import ScenarioError
from poise.cost.training.columns import even_split
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout


def layers(job: Job, layout: Layout) -> list[range]:
    """The layers of every stage, in order of depth; the first also has the embedding and the last one the head."""
    counts = layout.split or even_split(job.model.layers, layout.stages)
    return [range(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]


def named_layers(some: range) -> list[str]:
    """The names of some layers as modules, as in `layers.3`."""
    return [f"layers.{layer}" for layer in some]


def no_operations(trainer: str, layout: Layout) -> None:
    """Raise ScenarioError where parts of layers are recomputed, for trainers that recompute layers whole."""
    if layout.recompute not in ("none", "full"):
        raise ScenarioError(f"{trainer} recomputes whole layers, not {layout.recomputed}; take none or full")


def whole_layers(trainer: str, job: Job, layout: Layout) -> None:
    """Raise ScenarioError where only some layers of a stage are recomputed, for trainers that do all or none."""
    some, most = layout.recompute_layers, max(map(len, layers(job, layout)))
    if layout.recompute == "full" and some is not None and some < most:
        raise ScenarioError(f"{trainer} recomputes all layers or none, not {some} of the {most} of a stage")


def bf16_only(trainer: str, job: Job) -> None:
    """Raise ScenarioError for a job of another precision, for trainers whose files here state BF16."""
    if job.precision != "bf16":
        raise ScenarioError(f"{trainer} is written for bf16, not {job.precision}; take torchtitan or Megatron-LM")


def server(job: Job) -> int:
    """Devices of one host, on which a launcher starts as many processes; racks of NVL72 are made of hosts of four."""
    return job.inside if job.inside <= 8 else 4


def named(trainer: str, layout: Layout, known: dict[str, str]) -> str:
    """The trainer's name for the schedule; ScenarioError where it has none."""
    if layout.schedule not in known:
        raise ScenarioError(
            f"{trainer} has no schedule {layout.schedule}; it has {', '.join(known)}. `poise train run` runs it, and "
            "torchtitan does from a CSV where placement allows it"
        )
    return known[layout.schedule]


def repeated(items: list[str]) -> str:
    """Megatron's short form of a row of stages: equal neighbours once, with their number."""
    rows = [(text, len(list(same))) for text, same in groupby(items)]
    return "|".join(text if count == 1 else f"({text}|)*{count - 1}{text}" for text, count in rows)
