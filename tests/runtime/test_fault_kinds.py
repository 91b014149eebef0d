"""A rank that is killed or stopped in any kind of task: one line that names it, on every rank, and no rank is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from poise.core.errors import RankError
from poise.pipeline import Schedule, make
from poise.pipeline.lower import program_of
from poise.runtime import Pipeline
from poise.runtime.guard import Guard, Seat
from poise.runtime.program.handle import Handle, Payload
from poise.runtime.ranks import Ranks
from tests.patience import PATIENCE_S
from tests.runtime.cases import RANKS, with_copies

BAD = 2
"""The rank that goes wrong."""

WIDTH, COUNT = 4, 4

TIMEOUT_S = 2.0

FAULTS: dict[str, Callable[[], object]] = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP),  # at once, here
}


STOPPED = ("F", "W", "send", "recv", "all_reduce", "broadcast", "copy", "update")
"""One of each sort: a stopped rank is noticed after the time limit alone, so each takes seconds."""

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "one_f_one_b": lambda: make("one_f_one_b", RANKS, COUNT),
    "zb_h1": lambda: make("zb_h1", RANKS, COUNT),
    "copied": lambda: with_copies(make("gpipe", RANKS, COUNT), 1),
    "chimera": lambda: make("chimera", RANKS, COUNT),
    "vocab_1": lambda: make("vocab_1", RANKS, COUNT),
}


@cache
def kinds() -> dict[str, str]:
    """Kinds of tasks that the rank runs, and the first schedule that has them."""
    found: dict[str, str] = {}
    for name, made in SCHEDULES.items():
        for task in program_of(made()).tasks():
            if task.rank == BAD:
                found.setdefault(task.kind, name)
    return found


def job(schedule: Schedule, kind: str, fault: Callable[[], object]) -> Callable[[Seat], None]:
    """Steps, in the second of which a rank goes wrong in the first task of a kind."""

    def main(seat: Seat) -> None:
        torch.set_num_threads(1)
        modules = [nn.Linear(WIDTH, WIDTH) for _ in range(schedule.stages)]
        output = nn.Linear(WIDTH, WIDTH, bias=False) if schedule.barriers else None
        target = torch.zeros(COUNT, dtype=torch.long) if output else torch.zeros(COUNT, WIDTH)
        with Guard(seat, timeout_s=TIMEOUT_S) as guard:
            made = Pipeline(schedule, modules, nn.functional.mse_loss, guard=guard, output=output)
            for step in range(3):
                if step == 1 and seat.rank == BAD:
                    spoil(made._kernels.table, kind, fault)
                made.step(torch.ones(COUNT, WIDTH), target)

    return main


def spoil(table: dict[str, Any], kind: str, fault: Callable[[], object]) -> None:
    """Have the kernel of a kind go wrong."""
    right = table[kind]

    def wrong(task: Any, reads: Sequence[Payload]) -> Sequence[Payload] | Handle:
        fault()
        found: Sequence[Payload] | Handle = right(task, reads)
        return found

    table[kind] = wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [*((kind, "killed") for kind in sorted(kinds())), *((kind, "stopped") for kind in STOPPED)],
)
def test_every_kind_of_task(kind: str, fault: str) -> None:
    ranks = Ranks(RANKS, job(SCHEDULES[kinds()[kind]](), kind, FAULTS[fault]), timeout_s=PATIENCE_S)
    with pytest.raises(RankError) as seen:
        ranks.wait(grace_s=2)
    message = str(seen.value)
    begins = "was ended by signal 9 (SIGKILL) in " if fault == "killed" else "does not answer, last seen in "
    assert message.startswith(f"rank {BAD} {begins}") and "\n" not in message
    assert not any(process.is_alive() for process in ranks.processes)


def test_the_matrix_has_all_kinds_of_a_training_step() -> None:
    wanted = {"F", "B", "I", "W", "R", "S", "T", "send", "recv", "scale", "update", "all_reduce", "broadcast", "copy"}
    assert wanted <= set(kinds())
