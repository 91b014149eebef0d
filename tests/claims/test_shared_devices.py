"""Small models on few devices: closed forms of one and of two, what shares and what waits, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.claims.shared_devices import Host, Limits, Machine, Pace, enough

LIMITS = Limits(1.0, 0.25)


def machine(*, step: float = 0.1, each: float = 0.0, prompt: float = 0.1, weights: float = 0.4) -> Machine:
    """A device that holds two models."""
    return Machine(1.0, weights, 0.05, 0.0, Pace(step, each, prompt))


@pytest.mark.parametrize(
    ("kind", "met"),
    [
        (machine(step=0.25), True),
        (machine(step=0.26), False),
        (machine(prompt=1.01), False),
        (machine(weights=0.96), False),
    ],
)
def test_one_request_is_in_time_where_its_steps_and_its_memory_fit(kind: Machine, met: bool) -> None:
    assert enough([kind], [(0.0, 0)], 50, LIMITS, 1.0) is met


def test_two_models_take_turns_and_alone_one_waits_for_the_other() -> None:
    both = [(0.0, 0), (0.01, 1)]
    assert enough([machine()], both, 20, LIMITS, 1.0)
    assert not enough([machine()], both, 20, LIMITS, 1.0, alone=True)
    assert enough([machine()] * 2, both, 20, LIMITS, 1.0, alone=True)
    assert enough([machine()], [(0.0, 0), (0.01, 0)], 20, LIMITS, 1.0, alone=True), "one model, one batch"
    assert not enough([machine(step=0.2)], both, 20, LIMITS, 1.0), "two steps are longer than a token may take"


def test_weights_come_before_the_prompt_and_idle_ones_give_way() -> None:
    kind = machine()._replace(load_s=0.8)
    assert enough([kind], [(0.0, 0)], 20, LIMITS, 1.0)
    assert not enough([kind._replace(load_s=0.95)], [(0.0, 0)], 20, LIMITS, 1.0)
    host = Host(kind, 20, 0.25, alone=False)
    for model in range(3):  # the third finds two models without requests
        host.go_on(10.0 * model)
        assert host.takes(model, host.now, LIMITS)
        host.let_in(model, host.now)
        while host.prompts or host.running:
            host.go_on(host.next_at())
            if not host.prompt_ends():
                assert not host.request_ends(LIMITS)
    assert set(host.instances) == {1, 2}


@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 4)), min_size=1, max_size=30), st.booleans(), st.integers(1, 3)
)
@settings(max_examples=40)
def test_who_is_let_in_is_in_time_and_memory_balances(come: list[tuple[float, int]], alone: bool, devices: int) -> None:
    """Every request is let in once or given up; those let in meet both limits, and all memory comes back."""
    hosts = [Host(machine(each=0.01), 20, 0.25, alone) for _ in range(devices)]
    ended = 0
    for at, model in sorted(come):
        for host in hosts:
            while host.next_at() <= at:
                host.go_on(host.next_at())
                if not host.prompt_ends():
                    assert not host.request_ends(LIMITS)
                    ended += 1
            host.go_on(at)
        able = [host for host in hosts if host.takes(model, at, LIMITS)]
        if able:
            able[0].let_in(model, at)
    for host in hosts:
        assert host.used <= 1 + 1e-9
        while host.prompts or host.running:
            host.go_on(host.next_at())
            if not host.prompt_ends():
                assert not host.request_ends(LIMITS)
        assert host.used == 0 and host.round == 0 and not host.decoding
