"""P/D-Serve's on-demand forwarding: no queue at the engine; a request without a free batch slot waits at the gateway.

Paper: P/D-Serve, arXiv 2408.08147. A prefill instance takes a request only into a free slot of its batch. The gateway
fills the instance that it sent to last until that is full, to build the batch; else it takes, of those with a free
slot, the one with the fewest open streams. While there is none the request is held, behind the others of its scenario
alone, and is rejected as soon as its first token cannot be in time any more (early stop).

Parameters: the paper's figures are normalised, so there are no published defaults. `slots` is b_p, the prompts that
one instance prefills at once: 1 suits prompts of some thousand tokens, which fill a device by themselves. It differs
from P/D-Serve in counting free slots from its own dispatches where the paper's gateway tries one instance after the
other and is refused (with one gateway both are equal; of several each fills its own slots), in stopping once even
an idle replica would be too late instead of at the deadline itself, and in that scenarios queue apart but share the
replicas of their model: the paper gives each its own, as pools of one model each would. The decode half goes to the
fewest requests.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from poise.core.action import Hold, Reject, Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView, InFlightView
from poise.policies.kit.loads import prefill_rates

_SCENARIOS = ("model", "tenant", "lora", "session", "prefix")


@dataclass(slots=True)
class Pull:
    """Send a request only into a free batch slot; hold it until there is one, or until it is too late.

    slots: prompts without a first token that a replica may have.  ttft_s: deadline of requests that bring none, 0: they
    wait as long as it takes.  scenario: whose requests share a queue (`prefix`: those of one first extent).
    """

    slots: int = 1
    ttft_s: float = 0.0
    scenario: str = "tenant"
    _last: dict[Hashable, int] = field(default_factory=dict, init=False, repr=False)
    _woken: dict[Hashable, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots {self.slots} would hold every request forever; give 1 or more")
        if self.scenario not in _SCENARIOS:
            raise ValueError(f"scenario {self.scenario!r} names no group; give one of {', '.join(_SCENARIOS)}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "flights", "cached_tokens")

    def group(self, request: RequestView) -> Hashable:
        """The scenario, within its model."""
        if self.scenario == "prefix":
            return request.model, request.ids[0] if request.ids else -1
        return request.model, getattr(request, self.scenario)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold | Reject:
        """A free slot, or none yet, or never."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(chance.least(able, cluster.requests))
        latest = self._latest(request, able, cluster)
        if latest and cluster.now > latest:
            return Reject("its first token cannot be in time any more")
        group = self.group(request)
        last = self._last.get(group, -1)
        if last in able and 0 < _prefilling(cluster.flights(last)) < self.slots:
            return Route(last)
        chosen = self._fewest(able, cluster, chance)
        if chosen < 0:
            return Hold("no free batch slot", self._wake(group, latest))
        self._last[group] = chosen
        return Route(chosen)

    def _fewest(self, able: Sequence[int], cluster: ClusterView, chance: Chance) -> int:
        """Of those with a free slot the one with the fewest open streams; -1 where there is none."""
        streams = {replica: cluster.flights(replica) for replica in able}
        for count in sorted({len(open) for open in streams.values()}):
            least = [replica for replica, open in streams.items() if len(open) == count]
            free = [replica for replica in least if _prefilling(streams[replica]) < self.slots]
            if free:
                return chance.pick(free)
        return -1

    def _latest(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> int:
        """When the last chance passes for an idle replica to make its first token in time; 0 without a deadline."""
        due = request.deadline_at or (self.ttft_s and request.arrived_at + ps(self.ttft_s))
        if not due:
            return 0
        prompt, rates = request.prompt_tokens, prefill_rates(cluster)
        if not request.ids:
            return due - ps(prompt / max([rates[replica] for replica in able]))
        cached = cluster.cached_tokens(request)
        return due - ps(min([(prompt - cached[replica]) / rates[replica] for replica in able]))

    def _wake(self, group: Hashable, latest: int) -> int:
        """The time at which its last chance has passed, computed once."""
        if not latest or self._woken.get(group) == latest:
            return 0
        self._woken[group] = latest
        return latest + 1


def _prefilling(streams: Sequence[InFlightView]) -> int:
    """Slots taken: requests without a first token."""
    return sum([stream.first_token_at < 0 for stream in streams])
