"""PipeDream (Narayanan et al., SOSP 2019, section 3): 1F1B without a flush; each backward is a step of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from poise.core.errors import ScheduleError
from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule


def pipedream(
    stages: int, microbatches: int, replicas: Sequence[int] | None = None, vertical: bool = False
) -> Schedule:  # fmt: skip
    """No bubble once the pipeline is full; a backward uses the weights of its forward, which are kept until then.

    `replicas` is how many ranks share each stage (default: one each; `partition.py` finds the best), `stages` their
    sum; microbatches go round, and the same rank has forward and backward. A rank runs ⌊ranks after the earlier stages
    − 1, by replicas⌋ forwards ahead and keeps one version more: p − s versions and a staleness of p − 1 − s with
    one rank each. With `vertical` a microbatch uses everywhere the version that the first stage had. What is a
    microbatch elsewhere is a whole minibatch here; the step size of a stage is to be scaled by its replicas over those
    of the first.
    """
    counts = [1] * stages if replicas is None else list(replicas)
    if not counts or min(counts) < 1 or sum(counts) != stages:
        raise ScheduleError(
            f"pipedream: replicas {' '.join(map(str, counts))} have {sum(counts)} ranks of {stages}; give one number "
            "of 1 or more for each stage, with the ranks as their sum"
        )
    rows: list[list[Op]] = []
    for stage, count in enumerate(counts):
        ahead = (stages - 1 - len(rows)) // count
        rows += [list(_rank(stage, range(own, microbatches, count), ahead)) for own in range(count)]
    made = Schedule(tuple(map(tuple, rows)), len(counts), microbatches, "pipedream")
    return replace(made, updates="vertical" if vertical else "stash")


def _rank(stage: int, own: Sequence[int], ahead: int) -> Iterator[Op]:
    """1F1B of a rank's own microbatches after `ahead` forwards."""
    yield from (F(stage, batch) for batch in own[:ahead])
    for place, batch in enumerate(own):
        yield from (F(stage, later) for later in own[place + ahead : place + ahead + 1])
        yield B(stage, batch)
