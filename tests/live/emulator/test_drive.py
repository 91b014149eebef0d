"""Every token of every request is told once, at the instant at which the slow reference makes it."""

from __future__ import annotations

from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.engine.replica import Replica
from poise.core.estimate import Estimator, StepShape
from poise.core.request import Phase, Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER, ps
from poise.live.emulator.drive import Driver
from poise.policies import Policies
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.testing import Client, LinearCost, a_request, check_replica, drive
from poise.testing.workloads import Case, a_case
from tests.live.emulator.hand import Kept, play


def build(case: Case, one_step: bool = False) -> Replica:
    return Replica(
        case.engine,
        cast("Estimator", case.cost),
        case.blocks,
        Policies(preempt=LastAdmitted(swap=case.swap)),
        layers=case.layers,
        one_step=one_step,
    )


def times(kept: dict[int, Kept]) -> dict[int, tuple[list[int], int]]:
    return {request: (each.at, each.done_at) for request, each in kept.items()}


@given(st.integers(0, 1 << 32))
@settings(max_examples=250)
def test_tokens_are_those_of_single_steps(seed: int) -> None:
    """Preempted, swapped, split and cancelled requests among them; on one lane and on two."""
    case = a_case(seed)
    held, single = play(build(case), case.clients), play(build(case, one_step=True), case.clients)
    assert times(held) == times(single)


@given(st.integers(0, 1 << 32))
@settings(max_examples=250)
def test_every_request_ends_once_and_everything_balances(seed: int) -> None:
    """The outcomes are those of the replica alone; sums hold after each happening; at the end nothing is left."""
    case = a_case(seed)
    replica = build(case)

    def check(driver: Driver, kept: dict[int, Kept]) -> None:
        check_replica(replica, driver.now, driver.now == driver._stepped_at)
        for request in driver.listeners.keys() & replica.sequences.keys():
            assert kept[request].made >= replica.progress(request, driver.now), "a token was not told"

    kept = play(replica, case.clients, check)
    log = drive(build(case), case.clients)
    first = {request: at for at, what, request in reversed(log) if what == "first token"}
    done = {request: at for at, what, request in log if what == "done"}
    for client in case.clients:
        each = kept[client.request.id]
        assert each.done_at == done.get(client.request.id, -1)
        if each.done_at >= 0:
            assert each.made == client.output_tokens
            assert each.at[0] == first[client.request.id]
            assert each.at == sorted(each.at) and each.at[-1] == each.done_at
        else:
            assert client.leaves_at and each.made < client.output_tokens
            assert all(at <= client.leaves_at for at in each.at)
    assert not replica.sequences and not replica.running and replica.pool.explicit == replica.pool.held == 0


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 400), max_size=40))
@settings(max_examples=150)
def test_looks_change_nothing(seed: int, looks: list[int]) -> None:
    """Advancing at any instant changes nothing, and what was told by then is what the replica says was made."""
    case = a_case(seed)
    step = case.cost.step(StepShape(1)).base
    replica = build(case)
    driver, kept = Driver(replica), {client.request.id: Kept() for client in case.clients}
    happenings = sorted(
        [(client.request.arrived_at, 0, client) for client in case.clients]
        + [(look * step // 7, 1, case.clients[0]) for look in looks],
        key=lambda each: (each[0], each[1], each[2].request.id),
    )
    for at, look, client in happenings:
        if look:
            driver.advance(at)
            for request, sequence in replica.sequences.items():
                if sequence.phase == Phase.DECODE:
                    assert kept[request].made == replica.progress(request, at, True)
        else:
            driver.add(Sequence(client.request, client.output_tokens), kept[client.request.id], at)
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
    assert all(kept[client.request.id].made == client.output_tokens for client in case.clients)


def lone(**engine: int) -> Replica:
    cost = LinearCost(step_s=1.0, kv_s=0.25)
    return Replica(Engine(**engine), cost, 100, Policies())  # type: ignore[arg-type]


def test_one_timer_serves_all_members_of_a_batch() -> None:
    """Due as often as there are steps, whatever the number of streams."""
    replica = lone(max_sequences=64)
    driver = Driver(replica)
    kept = {number: Kept() for number in range(50)}
    for number, each in kept.items():
        driver.add(Sequence(a_request(id=number, prompt_tokens=10), 20), each, 0)
    wakes = 0
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
        wakes += 1
    assert wakes == 1 + 20  # the turn that begins the prompts' step, and the end of each of twenty steps
    assert replica.stats.batches == 2
    assert all(each.made == 20 for each in kept.values())


def test_a_token_is_delivered_at_the_end_of_its_step() -> None:
    """The k-th decode step of a prompt of 10 tokens reads 10 + k tokens."""
    kept = play(lone(), [Client(a_request(prompt_tokens=10), 4)])[0]
    ends = [ps(1.0)]
    for step in (1, 2, 3):
        ends.append(ends[-1] + ps(1.0) + (10 + step) * ps(0.25))
    assert kept.at == ends
    assert (kept.admitted_at, kept.done_at) == (0, ends[-1])


def test_a_listener_may_give_up_while_it_is_called() -> None:
    replica = lone()
    driver = Driver(replica)

    class Quitter(Kept):
        def token(self, at: int) -> None:
            super().token(at)
            if self.made == 3:
                driver.abort(0, at)

    left: list[int] = []
    driver.left = lambda sequence: left.append(sequence.id)
    quitter, other = Quitter(), Kept()
    driver.add(Sequence(a_request(id=0), 9), quitter, 0)
    driver.add(Sequence(a_request(id=1), 9), other, 0)
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
    assert (quitter.made, quitter.done_at, other.made) == (3, -1, 9)
    assert left == [0, 1]
    assert not replica.sequences and replica.pool.explicit == replica.pool.held == 0


def test_the_watcher_counts_every_further_token() -> None:
    """Gaps are those between tokens of one request."""
    seen: list[tuple[int, int]] = []
    driver = Driver(lone(), watch=lambda gap, tokens: seen.append((gap, tokens)))
    kept = Kept()
    driver.advance(ps(5))
    driver.add(Sequence(a_request(prompt_tokens=10, arrived_at=ps(7)), 4), kept, ps(7))
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
    assert seen == [(after - before, 1) for before, after in zip(kept.at, kept.at[1:], strict=False)]
