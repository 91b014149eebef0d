"""Lanes that run side by side on one device: they divide its SMs, slow one another, and leave what they do not use.

A step claims a share of the SMs: its batch's, or its lane's, or all of them where the lane `borrows` and no other lane
has work. While the claims of running steps add up to more than the device, each has its claim's part of their sum, as
under MPS (semi-PD, arXiv 2504.19867, algorithm 1). A step begins with the time of its host, if the cost model says how
long that is (`Sharing.host`): the lane is not on the device then, and others are as fast as without it. Whenever a step
comes on the device or ends, each step there goes on with what is left of its work, at the speed that it has beside the
others. Work is conserved: the parts add up to a step.

All lanes of such a replica compose after each step. A step that may be left between two layers keeps its claim and its
time: it slows others and is not slowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poise.core.estimate import Piece, Running, Sharing, StepShape
from poise.core.units import NEVER

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica


class Job:
    """A lane's running step. apart: picoseconds on the device that no share changes: swaps, and adapters.

    estimate: the costs when it began.  host: picoseconds of its host, -1 before they are known.  whole: picoseconds of
    all the rest at the present speed, 0 before the step is on the device.  until: when it ends at that speed.
    """

    __slots__ = ("_lasts", "_share", "apart", "estimate", "host", "step", "until", "whole")

    def __init__(self, step: Running, apart: int, estimate: Callable[[StepShape], Piece]) -> None:
        self.step, self.apart, self.estimate = step, apart, estimate
        self.host = -1
        self._share, self._lasts = 0.0, 0
        self.whole = self.until = 0

    def at(self, share: float) -> Running:
        """The step with another share."""
        return self.step._replace(shape=self.step.shape._replace(share=share))

    def lasts(self, share: float) -> int:
        """Picoseconds of the whole step with a share, its host's included, without what is apart."""
        if share != self._share:
            shape, kv, window = self.at(share)
            piece = self.estimate(shape).at(kv)
            self._share, self._lasts = share, piece.base + piece.per_kv * kv + piece.per_window * window
        return self._lasts

    def comes_after(self, sharing: Sharing | None) -> int:
        """Picoseconds from its begin until it is on the device: no more than it takes alone."""
        if self.host < 0:
            shape = self.step.shape
            self.host = 0 if sharing is None else min(sharing.host(shape), self.lasts(shape.share))
        return self.host

    def go_on(self, now: int, whole: int) -> None:
        """From now on all of it would take `whole` picoseconds: what is left takes the same part of them."""
        if not self.whole:
            self.until = now + whole
        elif whole != self.whole:
            self.until = now - (now - self.until) * whole // self.whole
        self.whole = whole


class SharedDevice:
    """What the lanes of a replica do to one another's running steps. next_at: when the next one comes on the device."""

    __slots__ = ("_claims", "_jobs", "_lanes", "_sharing", "next_at")

    def __init__(self, replica: Replica) -> None:
        self._lanes = replica.lanes
        self._sharing: Sharing | None = getattr(replica.estimator, "sharing", None)
        self._jobs: list[Job] = []
        self.next_at = NEVER
        self._claims = [lane.spec.share for lane in replica.lanes]

    def claim(self, lane: LaneState, wanted: float) -> float:
        """The share of the step that a lane begins now, of which `wanted` is its batch's (0: the lane's own).

        Another share than in the lane's last step takes the time of a switch first.
        """
        share = wanted or lane.spec.share
        if lane.spec.borrows and not any(_at_work(other) for other in self._lanes if other is not lane):
            share = 1.0
        if share != self._claims[lane.index]:
            self._claims[lane.index] = share
            if self._sharing is not None:
                lane.swapping += self._sharing.switch
        return share

    def settle(self, now: int) -> None:
        """Let steps on the device go on at the speeds that they have beside one another, if others run than before.

        One whose host still works keeps the end that it has alone, before which it is settled.
        """
        running = self._on_device(now)
        jobs = [job for _, job in running]
        if jobs == self._jobs:
            return
        self._jobs = jobs
        over = max(1.0, sum([job.step.shape.share for job in jobs]))
        shares = [job.step.shape.share / over for job in jobs]
        factors = [1.0] * len(jobs)
        if len(jobs) > 1 and self._sharing is not None:
            factors = self._sharing.factors([job.at(share) for job, share in zip(jobs, shares, strict=True)])
        for (lane, job), share, factor in zip(running, shares, factors, strict=True):
            if lane.passing is None:
                whole = round((job.lasts(share) - job.host) * factor) + job.apart
                job.go_on(now, whole)
                lane.until = job.until
                lane.first = job.until - lane.began_at

    def _on_device(self, now: int) -> list[tuple[LaneState, Job]]:
        """The lanes whose steps are on the device, and those steps; sets `next_at`."""
        found = []
        self.next_at = NEVER
        for lane in self._lanes:
            job = lane.job
            if lane.steps and job is not None:
                comes_at = now if lane.passing else lane.began_at + job.comes_after(self._sharing)
                if comes_at <= now:
                    found.append((lane, job))
                else:
                    self.next_at = min(self.next_at, comes_at)
        return found


def _at_work(lane: LaneState) -> bool:
    return bool(lane.steps or lane.group.n or lane.joining or lane.prefilling)
