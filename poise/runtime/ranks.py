"""Processes of one machine as the ranks of a process group, started by forking: PyTorch is loaded once."""

from __future__ import annotations

import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from poise.core.errors import PoiseError, RankError
from poise.runtime.guard import BLAME, EXIT, Seat, StatusBoard
from poise.runtime.local_store import RankStore, ServedStore

JOINED, ALL_JOINED = "poise/joined", "poise/all joined"

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

Main = Callable[[Seat], None]


class Ranks:
    """`count` processes that run `main`, in a process group of gloo. They die with this process.

    The store is kept here, so that it outlives any rank.
    """

    def __init__(self, count: int, main: Main, *, timeout_s: float = 60.0) -> None:
        importlib.import_module("torch._dynamo")  # or every rank would load it with its first optimizer
        context = multiprocessing.get_context("fork")
        self._board = StatusBoard(context.RawArray("c", StatusBoard.size(count)))
        ends = [context.Pipe() for _ in range(count)]
        sys.stdout.flush()
        self.processes: list[BaseProcess] = [
            context.Process(
                target=_run, args=(rank, count, main, timeout_s, ends[rank][1], os.getpid(), self._board), daemon=True
            )
            for rank in range(count)
        ]
        for process in self.processes:
            process.start()
        for _, theirs in ends:
            theirs.close()
        self._store = ServedStore([ours for ours, _ in ends])

    def wait(self, grace_s: float = 5.0) -> None:
        """Wait until all have ended well. RankError, with all of them ended, if one has not."""
        left = dict(enumerate(self.processes))
        while left:
            wait([process.sentinel for process in left.values()])
            for rank, process in list(left.items()):
                if process.exitcode is not None:
                    del left[rank]
            codes = {rank: each.exitcode for rank, each in enumerate(self.processes) if each.exitcode}
            if codes:
                self._end(grace_s)
                message = self._message(codes)
                self._store.close()
                raise RankError(message)
        self._store.close()

    def close(self, grace_s: float) -> None:
        """Give the ranks this long to end, then end them."""
        self._end(grace_s)
        self._store.close()

    def _end(self, grace_s: float) -> None:
        for process in self.processes:
            process.join(grace_s)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _message(self, codes: dict[int, int]) -> str:
        """The cause: a rank ended by a signal, or the message that the ranks published."""
        for rank, code in codes.items():
            if code < 0:
                doing = self._board.read(rank) or "its start"
                return f"rank {rank} was ended by signal {-code} ({signal.Signals(-code).name}) in {doing}"
        blame = self._store.value(BLAME)
        if blame is not None:
            return blame
        rank, code = next(iter(codes.items()))
        return f"rank {rank} ended with exit code {code} in {self._board.read(rank) or 'its start'}"


def _run(
    rank: int, count: int, main: Main, timeout_s: float, end: Connection, parent: int, board: StatusBoard
) -> None:  # fmt: skip
    """The life of a rank."""
    gc.freeze()  # what the parent had is not this process's to end: it may wait for threads that are not here
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ThreadPoolExecutor(1) as fresh:  # OpenMP keeps a team for each thread, and this one's was left in the parent
        fresh.submit(_work, rank, count, main, timeout_s, end, board).result()


def _work(rank: int, count: int, main: Main, timeout_s: float, end: Connection, board: StatusBoard) -> None:
    """What a rank does in its thread: it joins the group, runs `main` and leaves."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store, patience = RankStore(end), timedelta(seconds=timeout_s)
    dist.init_process_group("gloo", store=PrefixStore("group", store), rank=rank, world_size=count, timeout=patience)
    if store.add(JOINED, 1) == count:
        store.set(ALL_JOINED, "yes")
    store.wait([ALL_JOINED], patience)  # a rank that left earlier would close connections that another still makes
    try:
        main(Seat(rank, count, lambda: store, board))
    except PoiseError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        sys.stderr.flush()
        os._exit(EXIT)  # without waiting for messages that no rank will receive
    dist.destroy_process_group()
