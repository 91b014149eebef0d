"""A rank that is killed, stalls or raises in mid-step: the job ends on all ranks, with one message that says which."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.core.errors import RankError
from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.guard import Guard, Seat
from poise.runtime.ranks import Ranks
from tests.patience import PATIENCE_S

RANKS = 4
TIMEOUT_S = 10.0


class Faulty(nn.Module):
    """A layer whose forward of the fourth microbatch goes wrong."""

    def __init__(self, fault: Callable[[], object]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.fault = fault
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 4:
            self.fault()
        found: Tensor = self.layer(x)
        return found


def _raise() -> None:
    raise ValueError("no more numbers")


def _job(fault: Callable[[], object], board: bool = True) -> Callable[[Seat], None]:
    """Training in which rank 2 goes wrong in 2F3."""

    def main(seat: Seat) -> None:
        seat = seat if board else Seat(seat.rank, seat.count, seat.connect)
        modules = [Faulty(fault) if stage == 2 else nn.Linear(4, 4) for stage in range(RANKS)]
        with Guard(seat, timeout_s=TIMEOUT_S) as guard:
            pipeline = Pipeline(make("one_f_one_b", RANKS, 8), modules, lambda y, t: ((y - t) ** 2).mean(), guard=guard)
            for _ in range(3):
                pipeline.step(torch.ones(8, 4), torch.zeros(8, 4))

    return main


def _fails(fault: Callable[[], object], board: bool = True) -> str:
    ranks = Ranks(RANKS, _job(fault, board), timeout_s=PATIENCE_S)
    with pytest.raises(RankError) as seen:
        ranks.wait(grace_s=10)
    assert not any(process.is_alive() for process in ranks.processes)
    return str(seen.value)


class Ended:
    """Says in which process it was ended; in a ring of its own, so that only the collector ends it."""

    where: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.ring = self

    def __del__(self) -> None:
        self.where.append(os.getpid())


def test_a_rank_does_not_end_what_its_parent_left() -> None:
    """As gRPC's channels, whose end waits for a thread that a forked process does not have."""
    Ended.where.clear()
    parent = os.getpid()

    def main(seat: Seat) -> None:
        gc.collect()
        if os.getpid() in Ended.where:
            raise RankError("a rank ended what was its parent's")

    gc.disable()
    try:
        Ended()
        Ranks(2, main).wait()
    finally:
        gc.enable()
    gc.collect()
    assert Ended.where == [parent]


def test_no_rank_begins_before_all_have_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins early may be over early, and closes connections that another is still making."""
    joined = dist.init_process_group

    def late(backend: str, *, store: dist.Store, rank: int, **more: Any) -> None:
        joined(backend, store=store, rank=rank, **more)
        if rank == 0:
            with pytest.raises(dist.DistStoreError):
                store.wait(["begun"], timedelta(seconds=0.3))

    def main(seat: Seat) -> None:
        seat.connect().set("group/begun", "yes")

    monkeypatch.setattr(dist, "init_process_group", late)
    Ranks(2, main).wait()


def test_a_rank_does_not_wait_for_threads_that_its_parent_has() -> None:
    """OpenMP's team of the parent is not in the child, though its memory says so."""

    def multiply(seat: Seat | None = None) -> None:
        torch.ones(512, 512) @ torch.ones(512, 512)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        multiply()
        ranks = Ranks(1, multiply)
    finally:
        torch.set_num_threads(threads)
    ranks.processes[0].join(PATIENCE_S)
    stuck = ranks.processes[0].is_alive()
    ranks.close(0)
    assert not stuck


def test_a_rank_that_raises_is_named() -> None:
    assert _fails(_raise) == "rank 2 failed in 2F3: ValueError: no more numbers"


@pytest.mark.slow
def test_a_rank_that_is_killed_is_named() -> None:
    message = _fails(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert message == "rank 2 was ended by signal 9 (SIGKILL) in 2F3"


@pytest.mark.slow
def test_a_rank_that_hangs_is_named() -> None:
    message = _fails(threading.Event().wait)
    assert message.startswith("rank 2 is stuck in 2F3: rank ")
    assert "waits for rank 2 in " in message


@pytest.mark.slow
def test_a_rank_that_is_stopped_is_named() -> None:
    message = _fails(lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP))  # at once, here
    assert message.startswith("rank 2 does not answer, last seen in 2F3: rank ")
    assert "waits for rank 2 in " in message


@pytest.mark.slow
def test_ranks_that_no_other_waits_for_report_it_themselves(capfd: pytest.CaptureFixture[str]) -> None:
    """As under torchrun: one line, from whoever found out."""
    _fails(_raise, board=False)
    printed = [line for line in capfd.readouterr().err.splitlines() if line.startswith("poise:")]
    assert printed == ["poise: rank 2 failed in 2F3: ValueError: no more numbers"]


@pytest.mark.slow
def test_a_lost_neighbour_is_named_by_who_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    _fails(lambda: os.kill(os.getpid(), signal.SIGKILL), board=False)
    printed = [line for line in capfd.readouterr().err.splitlines() if line.startswith("poise:")]
    assert len(printed) == 1
    assert printed[0].startswith("poise: rank 2 was lost while rank ")


@pytest.mark.slow
def test_ranks_die_with_their_parent() -> None:
    """The parent is a process of its own here; its ranks wait for nothing for ever."""
    pipe, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        ranks = Ranks(2, lambda seat: threading.Event().wait() and None)
        os.write(tell, " ".join(str(process.pid) for process in ranks.processes).encode())
        threading.Event().wait()
    pids = [int(word) for word in os.read(pipe, 100).split()]
    os.close(pipe)
    os.close(tell)
    handles = [os.pidfd_open(pid) for pid in pids]
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    for handle in handles:
        seen = threading.Event()
        waiter = threading.Thread(target=lambda at=handle, done=seen: (_readable(at), done.set()))
        waiter.start()
        assert seen.wait(PATIENCE_S)
        waiter.join()
        os.close(handle)


def _readable(handle: int) -> None:
    import select

    select.select([handle], [], [])
