"""What `test_compiled.py` asks of the interpreted and of the compiled core, each in a process of its own.

Its argument is a file of pickled worlds (`tests.sim.cases.Case`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.compiled import CORE
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import Arrived
from poise.core.records.records import Run
from poise.core.records.trace import Trace, replay
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import ClusterView
from poise.cost import Roofline
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving
from poise.testing import a_request
from poise.workload import poisson
from tests.sim.cases import Case
from tests.sim.test_exact import COLUMNS
from tests.sim.test_repeat import Linear, cluster, traffic


class Second(LeastRequests):
    """A policy that somebody derives from one of ours: the next replica after the least loaded."""

    def __init__(self) -> None:
        self.costs = Roofline().build(cluster().pools[0])  # whoever is given a policy copies it

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        able = cluster.able(request)
        first = super().route(request, cluster, chance).replica
        return Route(able[(able.index(first) + 1) % len(able)])


class Nonsense:
    """A router that answers what no router may."""

    needs: tuple[str, ...] = ()

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return 0


def digest(run: Run, trace: Trace | None = None) -> str:
    """Everything that came of a run but the time that it took."""
    columns: list[Any] = [getattr(run.records, name).tobytes().hex() for name in COLUMNS]
    columns += [run.ended_at, run.offered, run.drained, run.refusals, run.samples]
    columns += [
        [getattr(stats, name) for name in ("busy", "steps", "batches", "peak_blocks")] for stats in run.replicas
    ]
    if run.blame:
        columns += [part.tobytes().hex() for part in (*run.blame.ttft, *run.blame.rest)]
    text = json.dumps(columns) + "\n".join(trace.lines if trace else [])
    return hashlib.sha256(text.encode()).hexdigest()


def worlds(drawn: list[Case]) -> list[str]:
    """Digests of worlds, with their events and actions and, on the quicker way, without; and with blame."""
    found: list[str] = []
    for case in drawn:
        trace = Trace()
        found.append(digest(case.build(one_step=False, trace=trace).simulate(), trace))
        found.append(digest(case.build(one_step=False, check=False).simulate()))
        found.append(digest(case.build(one_step=False, check=False, blame=True).simulate()))
    return found


def derived() -> str:
    """A run under a derived router, on the default costs."""
    run = simulate(
        cluster(), poisson(8.0, requests=300, prompt_tokens=500, output_tokens=50), Policies(router=Second())
    )
    return digest(pickle.loads(pickle.dumps(run)))


def refused() -> str:
    """What is said of a router that answers nonsense."""
    control = Control(Policies(router=Nonsense()), [ReplicaSpec()])
    try:
        control.handle(Arrived(0, a_request()))
    except PolicyError as error:
        return str(error)
    return ""


def cloned() -> bool:
    """Whether a copy of the control side, taken in the middle of a run, decides like the original."""
    events, trace = 400, Trace()
    world = build_world(
        cluster(), traffic(), Policies(router=PrefixCache()), Linear(), Belief(), seed=3, saving=Saving(trace=trace)
    )
    first, second = world.control.clone(), world.control.clone()
    world.simulate()
    found, decided = list(trace.events), list(trace.actions)
    head = replay(found[:events], first)
    middle = copy.deepcopy(first)
    rest = [replay(found[events:], control) for control in (first, middle)]
    return head + rest[0] == decided and rest[0] == rest[1] and replay(found, second) == decided


if __name__ == "__main__":
    results = {
        "worlds": worlds(pickle.loads(Path(sys.argv[1]).read_bytes())),
        "derived": derived(),
        "cloned": cloned(),
        "refused": refused(),
    }
    print(json.dumps({"core": CORE, **results}))
