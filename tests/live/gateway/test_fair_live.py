"""The flood of `docs/fairness.md`, smaller, through a real gateway: what was simulated is what happens.

Real sockets, on a clock that jumps (`tests.live.warp`): what the gateway and the engines compute takes no time, as in
the simulation, so what is left between the two is what they know and when. Seconds are compared within `FACTOR` and
`SLACK_S` of simulated time, and hit shares within `HITS`. What a policy decides is compared exactly elsewhere
(`test_same_object`); here the claims are compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from bench import fairness
from poise.core.units import SECOND
from poise.live.emulator.options import Options
from poise.live.gateway.settings import Settings
from poise.live.http.call import Address
from poise.live.http.limits import PoolLimits
from poise.live.requests.tenants import Tenants, parse
from poise.live.traffic import ANSWERED, Traffic
from poise.policies import Policies
from poise.policies.order.deficit_longest_prefix import DeficitLongestPrefix
from poise.policies.order.fcfs import Fcfs
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.route.cache_aware import CacheAware
from poise.workload import Workload
from tests.live.gateway.live import MODEL, Live
from tests.live.warp import run

SPEED = 2.0
FACTOR, SLACK_S, HITS = 1.5, 0.15, 0.03
CEILING = 16
KEYS = tuple(f"sk-{number}" for number in range(fairness.QUIET + 1))
CASES = {
    "affinity only": fairness.policies(None, ceiling=0),
    "fcfs": fairness.policies(Fcfs(), ceiling=CEILING),
    "vtc": fairness.policies(VirtualTokenCounter(), ceiling=CEILING),
    "dlpm": fairness.policies(DeficitLongestPrefix(), ceiling=CEILING),
    "vtc, cache_aware": replace(fairness.policies(VirtualTokenCounter(), ceiling=CEILING), router=CacheAware()),
}


class Measured(NamedTuple):
    """TTFT in simulated seconds while the flood is on, of the others and the flooder; share of tokens found cached."""

    others_p50: float
    others_p90: float
    flooder_p50: float
    hits: float


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Workload:
    """The same flood, of 8 seconds after 4: 695 requests, 600 of them the flooder's."""
    for name, value in {"BEGIN_S": 4, "FLOOD_S": 8, "UNTIL_S": 16}.items():
        monkeypatch.setattr(fairness, name, value)
    return fairness.workload()


def measured(load: Workload, arrived: np.ndarray, first: np.ndarray, hits: float) -> Measured:  # type: ignore[type-arg]
    """From instants in simulated picoseconds."""
    assert load.tenant is not None
    good = first >= 0
    ttft = (first - arrived) / SECOND
    flooded = good & (arrived >= fairness.BEGIN_S * SECOND)
    others, flooder = ttft[flooded & (load.tenant != fairness.FLOODER)], ttft[flooded & (load.tenant == 0)]
    p50, p90 = np.percentile(others, [50, 90])
    return Measured(float(p50), float(p90), float(np.median(flooder)), hits)


def simulated(policies: Policies, load: Workload) -> Measured:
    records = fairness.simulated(policies, load).records
    arrived, first = np.array(records.arrived_at), np.array(records.first_token_at)
    return measured(load, arrived, first, sum(records.cached_tokens) / sum(records.prompt_tokens))


async def served(policies: Policies, load: Workload) -> Measured:
    rows = ", ".join(f"{{name: {'default' if not at else f't{at}'}, key: {key}}}" for at, key in enumerate(KEYS))
    tenants = Tenants(parse(f"[{rows}]", "keys"))
    engines = [Options(MODEL, port=0, speed=SPEED)] * fairness.REPLICAS
    settings = Settings(held_s=0, engines=PoolLimits(head_s=0, stall_s=0))
    async with Live(
        engines, policies.router, order=policies.order, admission=policies.admission, settings=settings, tenants=tenants
    ) as live:
        live.gateway.world.keep = None
        traffic = Traffic(load, Address("127.0.0.1", live.port), MODEL, speed=SPEED, keys=KEYS)
        ended = await traffic.run()
        await live.check_balance()
        assert (ended.how == ANSWERED).all()
        totals = [engine.core.metrics for engine in live.engines]
        found = sum(metrics.cached_tokens for metrics in totals)
        prompt_tokens = sum(metrics.prompt_tokens for metrics in totals)
    factor = int(SPEED)
    return measured(load, ended.sent_at * factor, ended.first_at * factor, found / prompt_tokens)


@pytest.mark.slow
def test_a_flood_live_is_as_it_was_simulated(load: Workload) -> None:
    """Each row within tolerance of its simulation; and what the docs claim of the orders holds live."""
    rows = {name: compared(each, load) for name, each in CASES.items()}
    print(f"\n{'simulated | live':20}{'others p50 s':>16}{'others p90 s':>16}{'flooder p50 s':>16}{'hits':>18}")
    for name, pair in rows.items():
        seconds = "".join(f"{a:8.2f} |{b:6.2f}" for a, b in list(zip(*pair, strict=True))[:3])
        print(f"{name:20}{seconds}{100 * pair[0].hits:9.1f} |{100 * pair[1].hits:5.1f} %")
    for name, pair in rows.items():
        assert alike(*pair), name
    live = {name: found for name, (_, found) in rows.items()}
    bound = 2 * fairness.QUIET * unit(load) / rate(load)
    for name in ("vtc", "dlpm", "vtc, cache_aware"):
        assert live[name].others_p90 < live["fcfs"].others_p90, "the flooder waits, not the others"
        assert live[name].others_p90 < bound, name
    assert live["dlpm"].hits > 0.9 * live["affinity only"].hits


def compared(policies: Policies, load: Workload) -> tuple[Measured, Measured]:
    """The simulation, and what happens live."""
    return simulated(policies, load), run(served(policies, load))


def alike(simulation: Measured, live: Measured) -> bool:
    """Whether all is within tolerance."""
    *seconds, _ = zip(simulation, live, strict=True)
    near = all(expected / FACTOR - SLACK_S < found < expected * FACTOR + SLACK_S for expected, found in seconds)
    return near and abs(live.hits - simulation.hits) < HITS


def unit(load: Workload) -> float:
    """U of `docs/fairness.md` without a predictor, for both orders: the quantum is DLPM's."""
    longest, most = int(load.prompt.max()), int(load.output.max())
    return DeficitLongestPrefix().quantum + longest + 2 * 2 * fairness.REPLICAS * CEILING * most


def rate(load: Workload) -> float:
    """Weighted tokens a second that the fleet finishes, from the simulation by arrival."""
    records = fairness.simulated(CASES["fcfs"], load).records
    return float((load.prompt + 2 * load.output).sum() / (max(records.ended_at) / SECOND))
