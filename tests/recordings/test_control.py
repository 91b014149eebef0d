"""A recorded run replays: a control made from the header alone answers every recorded event as the first one did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poise.catalogue import device, model
from poise.core.errors import TraceError
from poise.core.records.trace import Trace
from poise.core.spec import Belief, Cluster, Fault, Pool, Role
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.policies import Policies
from poise.policies.find import build, names
from poise.recordings.control import control_of, replayed
from poise.scenario.record import simulation_header
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving
from poise.workload import poisson, sessions, shared_prefixes

ROLES: tuple[Role, ...] = ("mixed", "mixed", "mixed", "mixed")
PAIRS: tuple[Role, ...] = ("prefill", "prefill", "decode", "decode")


def a_recording(path: Path, router: str, belief: Belief, roles: tuple[Role, ...] = ROLES, faults: bool = True) -> Trace:
    """Some seconds of sessions with shared prompts, and a replica that is lost."""
    starts = poisson(40.0, requests=60, prompt_tokens=300, output_tokens=20, seed=3)
    workload = sessions(shared_prefixes(starts, groups=3, prefix_tokens=100, seed=3), turns=2, think_s=0.2, seed=3)
    span = float(workload.arrival.max()) / SECOND
    pools = tuple(Pool(model("poise/tiny"), device("H100"), role=role) for role in roles)
    cluster = Cluster(pools, faults=(Fault(0.5 * span, "lost", 1),) if faults else ())
    policies = {"router": {router: {}}, "mover": None}
    with path.open("w", encoding="utf-8") as file:
        trace = Trace(simulation_header(cluster, Roofline(), policies, belief, seed=7), file)
        made = Policies(router=build("router", router))
        simulate(cluster, workload, made, belief=belief, seed=7, saving=Saving(trace=trace))
    return Trace.load(path)


def lines(actions: list[Any]) -> list[str]:
    trace = Trace()
    for action in actions:
        trace.add(action)
    return trace.lines


BELIEFS = (
    Belief(),
    Belief(period_s=0.1, delay_s=0.01, prefix="reported"),
    Belief(period_s=0.0, delay_s=0.0),
    Belief(period_s=0.2, delay_s=0.0, in_flight=False, gateways=2),
)


@pytest.mark.parametrize("belief", BELIEFS, ids=["default", "reported", "always", "gateways"])
@pytest.mark.parametrize("router", names("router"))
def test_every_router_replays_byte_for_byte(router: str, belief: Belief, tmp_path: Path) -> None:
    roles = PAIRS if router == "pd_pair" else ROLES
    trace = a_recording(tmp_path / "day.jsonl", router, belief, roles)
    steps = list(replayed(trace))
    assert [lines(recorded) for recorded, _ in steps] == [lines(decided) for _, decided in steps]
    assert sum(len(recorded) for recorded, _ in steps) >= 120


def test_what_was_decided_differently_is_found(tmp_path: Path) -> None:
    trace = a_recording(tmp_path / "day.jsonl", "least_requests", Belief())
    trace.header["policies"]["router"] = {"round_robin": {}}
    assert any(recorded != decided for recorded, decided in replayed(trace))


def test_headers_that_do_not_say_enough(tmp_path: Path) -> None:
    whole = a_recording(tmp_path / "day.jsonl", "least_requests", Belief()).header
    for name, expected in (("replicas", "for 0 replicas"), ("belief", "no belief"), ("policies", "names no router")):
        with pytest.raises(TraceError, match=expected):
            control_of({key: value for key, value in whole.items() if key != name})
    with pytest.raises(TraceError, match="belief cannot be read"):
        control_of({**whole, "belief": {"periods": 1}})
    with pytest.raises(TraceError, match="oracle"):
        control_of({**whole, "belief": {"prefix": "oracle"}})
