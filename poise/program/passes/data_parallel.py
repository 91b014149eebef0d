"""Data parallelism as PyTorch DDP has it: replicas whose gradients are summed in buckets while others are computed.

After Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poise.core.errors import ProgramError
from poise.program.passes.buckets import CAP, FIRST, bucketed
from poise.program.passes.gradients import reduced
from poise.program.passes.replicas import replicated
from poise.program.program import Program


def data_parallel(
    program: Program, replicas: int, bytes: Sequence[float], *,
    others: Mapping[str, float] | None = None, cap: float = CAP, first: float = FIRST, accumulate: bool = True,
) -> Program:  # fmt: skip
    """`replicas` of `program` whose gradients are summed in buckets: `reduced`, `bucketed` and `replicated`.

    bytes: of the gradients of each stage; others: of those of other weights (see `reduced`).  cap, first: bytes of a
    bucket's gradients, and of the first one's (25 MiB and 1 MiB).  accumulate: sum once a step, behind a stage's last
    backward (`no_sync` in PyTorch for all microbatches but the last), or else behind every backward.
    """
    return replicated(summed(program, replicas, bytes, others, cap, first, accumulate), replicas)


def summed(
    program: Program, replicas: int, bytes: Sequence[float], others: Mapping[str, float] | None = None,
    cap: float = CAP, first: float = FIRST, accumulate: bool = True,
) -> Program:  # fmt: skip
    """One of the replicas before it is made one: its buckets are collectives of one rank.

    In a ring each rank sends 2 (replicas − 1) / replicas of the bytes that are summed.
    """
    if replicas < 1:
        raise ProgramError(f"data_parallel: {replicas} replicas; give 1 or more")
    sent = 2 * (replicas - 1) / replicas
    more = {name: each * sent for name, each in (others or {}).items()}
    found = reduced(program, [each * sent for each in bytes], "end" if accumulate else "each", others=more)
    return bucketed(found, cap * sent, first * sent)
