"""SAGA's agent fair share: the program furthest behind its pace first."""

from __future__ import annotations

from typing import Any

import pytest

from poise.core.units import SECOND
from poise.policies.queue import saga
from poise.policies.queue.saga import Saga
from poise.testing import a_request


def ranked(queue: Saga, now_s: float, *flows: Any) -> list[Any]:
    return sorted(flows, key=lambda flow: queue.rank(flow, (), round(now_s * SECOND)))


def begun(queue: Saga, session: int, at_s: float, served: int) -> None:
    """A program that began at an instant, and what it was served."""
    request = a_request(session=session, begun_at=round(at_s * SECOND))
    queue.joined(request, [])
    queue.charge(request, served - 10, 10)


def test_who_is_behind_its_pace_goes_first() -> None:
    """At 50 of 100 s half of the work is on pace: 900, 600 and 700 of 1000 are left, the last for 80 s."""
    queue = Saga(demand=1000, slo_s=100)
    begun(queue, 0, 0, 400)
    begun(queue, 1, 0, 100)
    begun(queue, 2, 30, 300)
    assert ranked(queue, 50, 0, 1, 2) == [1, 0, 2]


def test_the_overdue_before_all_others_and_the_longest_first() -> None:
    queue = Saga(demand=1000, slo_s=100)
    begun(queue, 0, 0, 900)
    begun(queue, 1, 10, 900)
    begun(queue, 2, 30, 10)
    assert ranked(queue, 120, 2, 1, 0) == [0, 1, 2]


def test_prompts_ahead_count_as_served_and_a_part_of_the_demand_is_always_left() -> None:
    queue = Saga(demand=1000, slo_s=100, least=0.2)
    begun(queue, 0, 0, 100)
    begun(queue, 1, 0, 5000)
    ahead = [a_request(prompt_tokens=600)]
    assert queue.rank(0, ahead, 0)[1] * 100 * SECOND == pytest.approx(-300)
    assert queue.rank(1, (), 0)[1] * 100 * SECOND == pytest.approx(-200)


def test_a_request_without_a_session_is_a_program() -> None:
    queue = Saga()
    assert queue.flow(a_request(id=3)) != queue.flow(a_request(id=4))
    assert queue.flow(a_request(id=3, session=7)) == queue.flow(a_request(id=4, session=7)) == 7


def test_programs_that_do_not_wait_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saga, "PROGRAMS", 2)
    queue = Saga()
    for session in range(3):
        queue.joined(a_request(session=session), [0] if session else [])
    queue.charge(a_request(session=1), 10, 0)
    assert ranked(queue, 0, 0, 2) == [0, 2]


@pytest.mark.parametrize("wrong", [{"demand": 0.0}, {"slo_s": -1.0}, {"least": 0.0}])
def test_parameters_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Saga(**wrong)
