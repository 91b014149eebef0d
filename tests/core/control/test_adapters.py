"""What the control side believes of adapters: own dispatches at once, reports, and what was used last."""

from __future__ import annotations

from poise.core.control.adapters import ReplicaAdapters
from poise.core.control.control import Control
from poise.core.event import AdaptersChanged, Arrived, Exchanged, Finished, ReplicaLost
from poise.core.records.trace import Trace
from poise.core.spec import ReplicaSpec
from poise.policies import Policies
from poise.policies.find import build
from poise.policies.route.lora_affinity import LoraAffinity
from poise.policies.route.round_robin import RoundRobin
from poise.testing import a_request


def shown(there: ReplicaAdapters) -> tuple[list[int], list[int], list[int]]:
    return list(there.running), list(there.waiting), list(there.resident)


def test_what_was_sent_runs_while_slots_last() -> None:
    there = ReplicaAdapters(2)
    for adapter in (5, 6, 7, 5):
        there.send(adapter, True)
    assert shown(there) == ([5, 6], [7], [7, 5])
    there.end(6)
    assert shown(there) == ([5, 7], [], [7, 5])
    there.end(5)
    assert shown(there)[0] == [5, 7], "one of two requests is left"


def test_a_report_of_others_counts_before_what_was_sent() -> None:
    there = ReplicaAdapters(2)
    there.send(5, True)
    there.report((8, 9), (5, 4))
    assert shown(there) == ([8, 9], [5, 4], [8, 9])
    there.forget()
    assert shown(there) == ([], [], [])


def test_without_counting_what_was_sent_only_reports_say_what_runs() -> None:
    there = ReplicaAdapters(2)
    there.send(5, False)
    assert shown(there) == ([], [], [5])
    there.end(5)


def test_control_keeps_them_from_events_and_an_exchange_finds_what_is_in_flight() -> None:
    control = Control(Policies(router=RoundRobin()), [ReplicaSpec(adapter_slots=1)] * 2)
    control.maker = lambda given: {"router": build("router", next(iter(given["router"])))}
    for number in range(3):
        control.handle(Arrived(number, a_request(id=number, lora=number)))
    assert not control.state.tracks_adapters
    control.handle(Exchanged(5, {"router": {"lora_affinity": {}}}))
    assert isinstance(control.router, LoraAffinity)
    assert shown(control.state.adapters(0)) == ([0], [2], [2])  # type: ignore[arg-type]
    control.handle(AdaptersChanged(6, 1, 4, (7,), (9,)))
    assert (control.state.adapters(1).slots, shown(control.state.adapters(1))) == (4, ([7, 1], [9], [1, 7]))  # type: ignore[arg-type]
    control.handle(Finished(7, 0, 1))
    assert shown(control.state.adapters(0)) == ([2], [], [2])  # type: ignore[arg-type]
    control.handle(ReplicaLost(8, 1))
    assert shown(control.state.adapters(1)) == ([], [], [])  # type: ignore[arg-type]


def test_the_event_is_written_and_read_back() -> None:
    event, trace = AdaptersChanged(6, 1, 4, (7, 8), ()), Trace()
    trace.add(event)
    assert list(trace.events) == [event]
