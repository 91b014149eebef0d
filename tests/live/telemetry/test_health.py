"""Circuits: known sequences, and properties that hold in every history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import NEVER, SECOND, ps
from poise.live.telemetry.health import Circuit, Eject, Health, Limits, Outcome, Probe, Restore, Transition

BAD = [each for each in Outcome if each is not Outcome.OK]


def _fleet(count: int, **limits: float) -> Health:
    health = Health(Limits(**limits))  # type: ignore[arg-type]
    for engine in range(count):
        health.join(engine, 0)
    return health


def _fail(health: Health, engine: int, at: int, times: int = 5) -> list[Transition]:
    return [each for _ in range(times) for each in health.outcome(engine, Outcome.REFUSED, at, at)]


def test_failures_in_a_row_eject_and_two_probes_restore() -> None:
    health = _fleet(2)
    assert not _fail(health, 0, 0, 4)
    [eject] = health.outcome(0, Outcome.RESET, 7, 7)
    assert eject == Eject(0, 7 + ps(5), "5 failures in a row, the last: connection reset")
    assert health.circuit(0) is Circuit.OPEN and health.next_at() == eject.until
    assert not health.tick(eject.until - 1)
    assert health.tick(eject.until) == [Probe(0)]
    assert not health.tick(eject.until)
    assert health.outcome(0, Outcome.OK, eject.until + 1, eject.until + 1) == [Probe(0)]
    assert health.outcome(0, Outcome.OK, eject.until + 2, eject.until + 2) == [Restore(0)]
    assert health.circuit(0) is Circuit.CLOSED and health.next_at() == NEVER


def test_a_success_breaks_the_row() -> None:
    health = _fleet(2, requests=100)
    for at in range(0, 40, 5):
        assert not _fail(health, 0, at, 4)
        assert not health.outcome(0, Outcome.OK, at, at)


def test_a_share_of_failures_ejects_where_no_row_does() -> None:
    health = _fleet(2)
    done = []
    for at in range(10):
        done += health.outcome(0, Outcome.ERROR if at % 2 else Outcome.OK, at, at)
    assert [each.reason for each in done if isinstance(each, Eject)] == [
        "5 of 10 requests failed in 10 s, the last: error 5xx"
    ]


def test_failures_outside_the_window_do_not_count() -> None:
    health = _fleet(2, consecutive=1000)
    for at in range(30):
        assert not health.outcome(0, Outcome.ERROR, at * 2 * SECOND, at * 2 * SECOND)  # never 10 within 10 s


def test_ejections_double_up_to_the_cap_and_are_forgotten() -> None:
    health = _fleet(2, first_s=5, longest_s=60, forget_s=100, probes=1)
    at, lasted = 0, []
    for _ in range(6):
        [eject] = _fail(health, 0, at)
        assert isinstance(eject, Eject)
        lasted.append((eject.until - at) // SECOND)
        at = eject.until
        health.tick(at)
        assert health.outcome(0, Outcome.OK, at, at) == [Restore(0)]
    assert lasted == [5, 10, 20, 40, 60, 60]
    at += ps(100)
    assert not health.outcome(0, Outcome.OK, at, at)
    [eject] = _fail(health, 0, at)
    assert isinstance(eject, Eject) and eject.until - at == ps(5)


def test_a_failed_probe_opens_again_for_longer() -> None:
    health = _fleet(2)
    [first] = _fail(health, 0, 0)
    assert isinstance(first, Eject)
    health.tick(first.until)
    assert health.outcome(0, Outcome.TIMEOUT, first.until, first.until) == [
        Eject(0, first.until + ps(10), "probe: timeout")
    ]


@pytest.mark.parametrize(("engines", "most"), [(1, 0), (2, 1), (3, 1), (4, 2), (9, 4)])
def test_half_of_the_fleet_stays_whatever_fails(engines: int, most: int) -> None:
    health = _fleet(engines)
    done = [each for engine in range(engines) for each in _fail(health, engine, 0, 50)]
    assert len(done) == most
    assert sum(health.circuit(engine) is Circuit.OPEN for engine in range(engines)) == most


def test_who_leaves_gives_its_place_up() -> None:
    health = _fleet(4)
    _fail(health, 0, 1), _fail(health, 1, 2)
    assert health.leave(3, 5) == [Restore(0)]
    assert health.circuit(1) is Circuit.OPEN
    assert health.leave(2, 6) == []
    assert health.leave(0, 7) == [Restore(1)]


def test_what_was_sent_before_the_ejection_changes_nothing() -> None:
    health = _fleet(2)
    [eject] = _fail(health, 0, 0)
    assert not health.outcome(0, Outcome.OK, 0, 1)
    assert not _fail(health, 0, 1)
    assert isinstance(eject, Eject) and health.next_at() == eject.until
    health.tick(eject.until)
    assert not health.outcome(0, Outcome.TIMEOUT, 0, eject.until + 1)
    assert health.circuit(0) is Circuit.HALF_OPEN


def test_checks_eject_and_probe_but_do_not_hide_failing_requests() -> None:
    health = _fleet(2)
    for at in range(4):
        assert not health.outcome(0, Outcome.ERROR, at, at)
        assert not health.checked(0, Outcome.OK, at)
    [eject] = health.checked(0, Outcome.REFUSED, 5)
    assert isinstance(eject, Eject)
    health.tick(eject.until)
    assert health.checked(0, Outcome.OK, eject.until) == [Probe(0)]
    assert health.checked(0, Outcome.OK, eject.until) == [Restore(0)]


KINDS = st.sampled_from([*Outcome, "check", "tick", "leave", "join"])
STEPS = st.lists(st.tuples(st.integers(0, 4), KINDS, st.integers(0, 4 * SECOND)), max_size=200)


@given(STEPS, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_any_history(steps: list[tuple[int, Outcome | str, int]], share: float) -> None:
    """Never more ejected than the share; each transition is from the state that allows it; and all recover."""
    health = Health(Limits(ejected=share, consecutive=2, requests=4))
    at, states = 0, {}
    for engine, step, wait in steps:
        at += wait
        done: list[Transition] = []
        if step == "join" and engine not in health.engines:
            health.join(engine, at)
            states[engine] = Circuit.CLOSED
        elif step == "tick":
            done = health.tick(at)
        elif engine in health.engines:
            if step == "leave":
                del states[engine]
                done = health.leave(engine, at)
            elif isinstance(step, Outcome):
                done = health.outcome(engine, step, at, at)
            elif step == "check":
                done = health.checked(engine, Outcome.TIMEOUT, at)
        _follow(states, done, at)
        assert states == {each: health.circuit(each) for each in health.engines}
        assert sum(state is not Circuit.CLOSED for state in states.values()) <= int(share * len(states))
    for _ in range(2 * len(states)):
        at = max(at, min(health.next_at(), at + ps(300)))
        _follow(states, health.tick(at), at)
        for engine in list(health.engines):
            _follow(states, health.outcome(engine, Outcome.OK, at, at), at)
    assert set(states.values()) <= {Circuit.CLOSED}


def _follow(states: dict[int, Circuit], done: list[Transition], at: int) -> None:
    for each in done:
        if isinstance(each, Eject):
            assert states[each.engine] is not Circuit.OPEN and at < each.until <= at + ps(300)
            states[each.engine] = Circuit.OPEN
        elif isinstance(each, Probe):
            assert states[each.engine] is not Circuit.CLOSED
            states[each.engine] = Circuit.HALF_OPEN
        else:
            assert states[each.engine] is not Circuit.CLOSED
            states[each.engine] = Circuit.CLOSED
