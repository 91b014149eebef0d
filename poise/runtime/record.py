"""Watching a step while it runs: the events of this rank, then those of all."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

import torch
import torch.distributed as dist

from poise.pipeline.op import Op
from poise.pipeline.schedule import Schedule
from poise.runtime.program.interpreter import Ran
from poise.runtime.recording import Event, Recording


@dataclass
class Recorder:
    """Notes when operations begin, have what they need, and end; on a GPU it waits for the GPU each time.

    `held` returns how many microbatches have activations here and, where counted, their bytes.
    """

    device: torch.device
    held: Callable[[], tuple[int, int]]
    events: list[Event] = field(default_factory=list)
    origin: int = 0

    def begin(self, group: dist.ProcessGroup) -> None:
        """A step begins on all ranks."""
        dist.barrier(group=group)
        self.events = []
        self.origin = self.now()

    def note(self, op: Op, ran: Ran) -> None:
        """An operation has ended."""
        self.events.append(Event(str(op), ran.reached, ran.start, ran.end, *self.held()))

    def gather(self, schedule: Schedule, group: dist.ProcessGroup) -> Recording:
        """The step as all ranks saw it: a collective. Clocks of different machines are set by the step's barrier."""
        gathered: list[tuple[str, int, list[Event]] | None] = [None] * group.size()
        dist.all_gather_object(gathered, (socket.gethostname(), self.origin, self.events), group=group)
        known = [each for each in gathered if each is not None]
        zero = {host: min(origin for other, origin, _ in known if other == host) for host, _, _ in known}
        rows = [[_moved(event, zero[host]) for event in events] for host, _, events in known]
        return Recording(schedule, rows)

    def now(self) -> int:
        """Nanoseconds of this process's clock."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return perf_counter_ns()


def _moved(event: Event, zero: int) -> Event:
    return event._replace(reached=event.reached - zero, start=event.start - zero, end=event.end - zero)
