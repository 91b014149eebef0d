"""P/D-Serve's ratio control: the closed form, and the trigger."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Convert
from poise.core.event import Arrived, Cancelled, Event, Finished, FirstToken
from poise.core.spec import Role
from poise.core.units import SECOND
from poise.policies.scale.pd_serve import PdServe, balanced
from poise.testing import a_chance, a_cluster, a_pool, a_replica, a_request


@given(st.integers(2, 40), st.integers(1, 1000), st.integers(1, 1000))
def test_the_balance_is_the_closed_form_at_whole_numbers(replicas: int, prefill: int, decode: int) -> None:
    """n_p/T_p = n_d/T_d at n_p = n·T_p/(T_p + T_d); the best whole split is one of the two next to it."""
    some = balanced(replicas, float(prefill), float(decode))
    exact = Fraction(replicas * prefill, prefill + decode)
    assert 1 <= some <= replicas - 1 and (abs(some - exact) < 1 or some in (1, replicas - 1))
    served = [min(Fraction(each, prefill), Fraction(replicas - each, decode)) for each in range(1, replicas)]
    assert min(Fraction(some, prefill), Fraction(replicas - some, decode)) == max(served)


def test_as_the_paper_writes_it() -> None:
    """b_p 4 in 2 s and b_d 32 in 16 s are 2 requests a second each; twice the prompt needs twice the instances."""
    assert balanced(6, 2 / 4, 16 / 32) == 3
    assert balanced(6, 4 / 4, 16 / 32) == 4
    assert balanced(6, 2 / 4, 64 / 32) == 1


ROLES: tuple[Role, ...] = ("prefill", "prefill", "decode", "decode", "decode")


def beat(
    policy: PdServe,
    at_s: int,
    ttft_s: float,
    e2e_s: float,
    *,
    serving: Sequence[int] = range(5),
    requests: Sequence[int] = (3, 2, 9, 7, 8),
    replica: int = 0,
    roles: Sequence[Role] = ROLES,
) -> Sequence[Convert]:
    """Four requests that took so long end before `at_s`; then it is asked."""
    for number in range(4):
        came, key = (at_s - 1) * SECOND, 10 * at_s + number
        events: list[Event] = [
            Arrived(came, a_request(id=key, prompt_tokens=1000, arrived_at=came)),
            FirstToken(came + int(ttft_s * SECOND), key, replica),
            Finished(came + int(e2e_s * SECOND), key, 10),
        ]
        for event in events:
            policy.observe(event)
    replicas = [a_replica(role=role, requests=count) for role, count in zip(roles, requests, strict=True)]
    pools = [
        a_pool(*(each for each in serving if each < 2), wanted=2, group=0),
        a_pool(*(each for each in serving if each >= 2), wanted=3, group=0),
    ]
    view = a_cluster(*replicas, now=at_s * SECOND, needs=policy.needs, pools=pools)
    return list(policy.scale(view, a_chance()))


def a_policy() -> PdServe:
    return PdServe(rise=0.1, least=4)


@pytest.mark.parametrize(
    ("ttft_s", "e2e_s", "answer"),
    [
        (4, 12, [Convert(3, "prefill")]),
        (2, 12, [Convert(1, "decode")]),
        (2.05, 10.5, []),
        (1, 8, []),
        (4, 10, []),
    ],
    ids=["both rise", "the share falls", "no rise to speak of", "it falls", "the share alone"],
)
def test_the_trigger(ttft_s: float, e2e_s: float, answer: list[Convert]) -> None:
    """From a first token after 2.5 s of 10 s; who has the fewest requests changes sides."""
    policy = a_policy()
    assert beat(policy, 5, 2.5, 10) == []
    assert beat(policy, 10, ttft_s, e2e_s) == answer


def test_a_rise_is_one_over_the_least() -> None:
    policy = a_policy()
    actions = [beat(policy, 5 * at, 2.5 + at / 2, e2e_s) for at, e2e_s in enumerate((10, 10.6, 10.9, 11.1))]
    assert actions == [[], [], [], [Convert(3, "prefill")]]


def test_nothing_is_judged_before_all_serve_again_nor_by_what_was_before() -> None:
    policy = a_policy()
    beat(policy, 5, 2.5, 10)
    assert beat(policy, 10, 4, 12, serving=(0, 1, 2, 4)) == []
    assert beat(policy, 15, 4, 14) == [], "the first window is the measure of the next"
    assert beat(policy, 20, 7, 16) == [Convert(3, "prefill")]


def test_too_few_requests_are_no_window() -> None:
    policy = PdServe(rise=0.1, least=8)
    actions = [beat(policy, 5 * at, ttft_s, e2e_s) for at, (ttft_s, e2e_s) in enumerate([(2, 10)] * 3 + [(6, 15)])]
    assert actions == [[], [], [], [Convert(3, "prefill")]], "the third window's four wait for the fourth's"


def test_the_last_of_a_side_stays() -> None:
    policy = a_policy()
    roles: tuple[Role, ...] = ("prefill",) * 4 + ("decode",)
    beat(policy, 5, 2.5, 10, roles=roles)
    assert beat(policy, 10, 4, 12, roles=roles) == []


def test_those_without_pairs_are_not_judged() -> None:
    policy = a_policy()
    for at_s, ttft_s, e2e_s in ((5, 2.5, 10.0), (10, 4.0, 12.0)):
        actions = beat(policy, at_s, ttft_s, e2e_s, roles=("mixed",) * 5)
    assert actions == []


def test_groups_are_judged_apart() -> None:
    """Two of the ends of a beat are of each group; prefill is short in one, decode in the other."""
    policy = PdServe(rise=0.1, least=2)
    roles: tuple[Role, ...] = ("prefill", "prefill", "decode", "decode") * 2
    pools = [a_pool(*range(first, first + 4), group=group) for group, first in ((0, 0), (1, 4))]
    actions: Sequence[Convert] = []
    for beats, spans in enumerate((((2.5, 10.0), (2.5, 10.0)), ((4.0, 12.0), (2.0, 12.0)))):
        for number in range(4):
            key, (ttft_s, e2e_s) = 10 * beats + number, spans[number % 2]
            policy.observe(Arrived(0, a_request(id=key)))
            policy.observe(FirstToken(int(ttft_s * SECOND), key, 4 * (number % 2)))
            policy.observe(Finished(int(e2e_s * SECOND), key, 10))
        view = a_cluster(*(a_replica(role=role) for role in roles), needs=policy.needs, pools=pools)
        actions = policy.scale(view, a_chance())
    assert actions == [Convert(2, "prefill"), Convert(4, "decode")]


def test_who_never_ends_is_forgotten() -> None:
    policy = a_policy()
    for number in range(70_000):
        policy.observe(Arrived(number, a_request(id=number)))
    policy.observe(Cancelled(0, 69_999, "left"))
    assert len(policy._open) == (1 << 16) - 1
