"""P/D-Serve's ratio control: convert prefill and decode replicas of a group when one side is the bottleneck.

Paper: P/D-Serve, arXiv 2408.08147. Requests are grouped by scenario, and each group has prefill and decode instances
of its own (here: pools of one model and the same `tenants`). A group is in balance where n_p·b_p/T_p = n_d·b_d/T_d,
with n instances of a side, b requests in a batch and T their time in it. A rising mean end-to-end time shows that
it is not any more: prefill is short if the first token's part of it rises as well, decode if that part falls. A running
instance then takes the other role: it drains, connects, loads the model compiled for it, and reports its health.

Parameters: the paper has no figures for a rise or a window. Here one replica changes at a time, the one with the fewest
requests, and nothing is judged before it serves again; a rise is one over the least mean since the last change. It
differs from the paper in that the balance is not computed on the way: times measured where a side is short contain its
queue, and going to the ratio that they give swung from side to side. `balanced` is for times of a profile. The
controller must see when a prompt is done, so that the prefill side sends first tokens (`engine.first_token: prefill`);
else the queue of a short decode side counts as prefill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Convert
from poise.core.chance import Chance
from poise.core.event import Arrived, Cancelled, Event, Failed, Finished, FirstToken
from poise.core.spec import Role
from poise.core.units import seconds
from poise.core.view import FleetView

_OPEN = 1 << 16
"""The most requests tracked without an end: rejected ones never have one."""


def balanced(replicas: int, prefill_s: float, decode_s: float) -> int:
    """How many of `replicas` (2 or more) are to prefill, so that the group serves the most requests a second.

    prefill_s, decode_s: seconds of an instance that a request takes of each side, T_p/b_p and T_d/b_d; the group serves
    min(n_p/prefill_s, n_d/decode_s), which is greatest at the whole numbers nearest n_p/prefill_s = n_d/decode_s.
    """
    return max(range(1, replicas), key=lambda some: min(some * decode_s, (replicas - some) * prefill_s))


@dataclass(slots=True)
class _Request:
    """A request under way: instants in picoseconds, -1 for not yet."""

    arrived_at: int
    first_token_at: int = -1
    replica: int = -1


@dataclass(slots=True)
class _Window:
    """Sums over the requests of a group that ended since the window began, in seconds."""

    count: int = 0
    e2e: float = 0.0
    ttft: float = 0.0

    def add(self, request: _Request, at: int) -> None:
        self.count += 1
        self.e2e += seconds(at - request.arrived_at)
        self.ttft += seconds(request.first_token_at - request.arrived_at)


@dataclass(slots=True)
class PdServe:
    """Let a replica change sides when requests take longer, by which part of them does.

    rise: by how much of itself the mean end-to-end time must rise.  least: requests that a mean is taken of; both are
    to be above what a mean wanders by chance.
    """

    converts: ClassVar[tuple[Role, ...]] = ("prefill", "decode")
    first_token: ClassVar[str] = "prefill"

    rise: float = 0.3
    least: int = 100
    period_s: float = 5.0
    _open: dict[int, _Request] = field(default_factory=dict, init=False, repr=False, compare=False)
    _windows: dict[int, _Window] = field(default_factory=dict, init=False, repr=False, compare=False)
    _ended: list[tuple[_Request, int]] = field(default_factory=list, init=False, repr=False, compare=False)
    _best: dict[int, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rise <= 0 or self.least < 1 or self.period_s <= 0:
            raise ValueError("rise and period_s are above 0, and least is 1 or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("requests",)

    def observe(self, event: Event) -> None:
        """Requests come, have their first token, and end."""
        if type(event) is Arrived:
            self._open[event.request.id] = _Request(event.request.arrived_at)
            if len(self._open) > _OPEN:
                del self._open[next(iter(self._open))]
        elif type(event) is FirstToken and event.request in self._open:
            request = self._open[event.request]
            request.first_token_at, request.replica = event.at, event.replica
        elif type(event) is Finished or type(event) is Failed or type(event) is Cancelled:
            ended = self._open.pop(event.request, None)
            if type(event) is Finished and ended is not None and ended.replica >= 0:
                self._ended.append((ended, event.at))

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Convert]:
        """The replicas that convert, for each group."""
        groups: dict[int, list[int]] = {}
        wanted: dict[int, int] = {}
        for pool in cluster.pools:
            groups.setdefault(pool.group, []).extend(pool.serving)
            wanted[pool.group] = wanted.get(pool.group, 0) + pool.wanted
        self._sort(groups)
        changes: list[Convert] = []
        for group, serving in groups.items():
            if len(serving) < wanted[group]:  # a conversion is under way: measurements are transient
                self._windows.pop(group, None)
                self._best.pop(group, None)
            else:
                changes += self._judge(group, serving, cluster)
        return changes

    def _sort(self, groups: dict[int, list[int]]) -> None:
        """Count those that ended to their groups."""
        group_of = {replica: group for group, serving in groups.items() for replica in serving}
        for request, at in self._ended:
            group = group_of.get(request.replica)
            if group is not None:
                self._windows.setdefault(group, _Window()).add(request, at)
        self._ended.clear()

    def _judge(self, group: int, serving: Sequence[int], cluster: FleetView) -> list[Convert]:
        """Whether a side is short, at the end of a window."""
        window = self._windows.get(group)
        if window is None or window.count < self.least:
            return []
        del self._windows[group]
        e2e, share = window.e2e / window.count, window.ttft / window.e2e
        best = self._best.get(group)
        if best is None or e2e < best[0]:
            self._best[group] = e2e, share
        if best is None or e2e < best[0] * (1 + self.rise) or share == best[1]:
            return []
        short: Role = "prefill" if share > best[1] else "decode"
        return self._help(short, serving, cluster)

    def _help(self, short: Role, serving: Sequence[int], cluster: FleetView) -> list[Convert]:
        """A replica of the other side, but its last."""
        spare = [each for each in serving if cluster.roles[each] in self.converts and cluster.roles[each] != short]
        if len(spare) < 2 or not any(cluster.roles[each] == short for each in serving):
            return []
        return [Convert(min(spare, key=lambda each: (cluster.requests[each], each)), short)]
