"""Lanes that divide a device: by hand, and work that is conserved however their steps meet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.engine.replica import Replica
from poise.core.request import RequestView
from poise.core.spec import Engine, Lane
from poise.core.units import SECOND, ps
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.testing.cost import LinearCost
from poise.testing.solo import Client, drive
from tests.depth import examples

COST = LinearCost(step_s=0.0, prompt_s=0.01, decode_s=1.0)
TWO = [Client(RequestView(0, 0, 100), 3), Client(RequestView(1, ps(1.5), 100), 1)]
"""A second of prompt and two of decodes, and half way through the first decode another second of prompt."""


def lanes(prompts: float, decodes: float, borrows: bool = False) -> tuple[Lane, ...]:
    return Lane("p", decode=False, share=prompts, borrows=borrows), Lane("d", False, True, decodes, borrows)


def run(some: tuple[Lane, ...], clients: list[Client], cost: LinearCost = COST) -> tuple[Replica, dict[int, float]]:
    """The replica and when each request is done, in seconds."""
    replica = Replica(Engine(lanes=some, prefix_caching=False), cost, 1000, Policies(batcher=Chunked()))
    replica.slices = []
    log = drive(replica, clients)
    return replica, {who: at / SECOND for at, what, who in log if what == "done"}


def test_shares_of_one_divide_the_device_only_while_both_run() -> None:
    """Both at half speed from 1.5 s: the prompt ends at 3.5 s, and the decodes' last half second is alone again."""
    assert run(lanes(1.0, 1.0), TWO)[1] == {0: 4.0, 1: 3.5}


def test_shares_that_add_up_to_one_leave_nothing_to_the_other() -> None:
    assert run(lanes(0.5, 0.5), TWO)[1] == {0: 2.0 + 4.0, 1: 4.0}


def test_a_lane_that_borrows_takes_all_sms_where_the_other_has_no_work() -> None:
    """Until 2.25 s the decodes' step has two thirds, which it began with all; the next begins with a half.

    The prompt has a third until then, so it ends at 3.75 s, and the decodes keep their half to 4.25 s.
    """
    assert run(lanes(0.5, 0.5, borrows=True), TWO)[1] == {0: 4.25, 1: 3.75}


def test_lanes_slow_one_another_by_what_the_cost_model_says() -> None:
    """From 1.5 s both go on at a third: the first decode ends at 3 s, the prompt at 4.5 s, the second is half done."""
    assert run(lanes(1.0, 1.0), TWO, replace(COST, slowed=1.5))[1] == {0: 5.0, 1: 4.5}


@pytest.mark.parametrize(
    ("arrives", "decoded", "prompted"),
    [
        # The first decode is on the device from 3 to 4 s, the prompt from 4 to 5 s, the second decode from 5 to 6 s.
        (3.0, 6.0, 5.0),
        # From 3.5 to 4.5 s the first decode and the prompt are both on the device, then the prompt alone to 5 s.
        (2.5, 6.5, 5.0),
    ],
)
def test_a_lane_whose_host_works_leaves_the_device_to_others(arrives: float, decoded: float, prompted: float) -> None:
    """Each step begins with a second of its host; then a prompt or a decode takes a second."""
    some = [TWO[0], Client(RequestView(1, ps(arrives), 100), 1)]
    assert run(lanes(1.0, 1.0), some, replace(COST, host_s=1.0))[1] == {0: decoded, 1: prompted}


def test_another_share_takes_a_switch_before_the_step() -> None:
    """The prompt at 0 s finds its lane's own share; the first decode, at 1 s, and the second do not differ."""
    done = run(lanes(0.5, 1.0, borrows=True), TWO[:1], replace(COST, switch_s=0.25))[1]
    assert done == {0: 0.25 + 1.0 + 2.0}


def test_one_lane_is_the_device() -> None:
    whole, done = run((Lane(),), TWO)
    assert whole.device is None
    assert run((Lane(share=1.0, borrows=True),), TWO)[1] == done


clients = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(1, 6)), min_size=1, max_size=8
).map(
    lambda rows: [
        Client(RequestView(at, ps(0.1 * when), prompt), output)
        for at, (when, prompt, output) in enumerate(sorted(rows))
    ]
)  # fmt: skip


@pytest.mark.deep
@given(clients, st.sampled_from((lanes(1.0, 1.0), lanes(1.0, 1.0)[::-1], lanes(0.5, 0.5, borrows=True))))
@settings(max_examples=examples(400), deadline=None)
def test_work_is_conserved(some: list[Client], chosen: tuple[Lane, ...]) -> None:
    """Where nothing is lost to contention, the device is busy for as long as all steps take alone on all of it.

    A lane that borrows wastes what it leaves idle when the other ends first, so there it is at least as long.
    """
    replica, done = run(chosen, some)
    assert len(done) == len(some)
    assert replica.slices is not None
    work = sum(COST.prompt_s * tokens + COST.decode_s * decodes for *_, decodes, tokens in replica.slices)
    busy = replica.busy(0) / SECOND
    assert busy >= work - 1e-6
    if chosen[0].share == 1.0:
        assert busy == pytest.approx(work, abs=1e-6)


@pytest.mark.deep
@given(
    *(clients, st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.booleans(), st.sampled_from((1.0, 1.3))),
    st.sampled_from((0.0, 0.2, 5.0)),
)
@settings(max_examples=examples(400), deadline=None)
def test_no_step_is_faster_than_alone_on_the_whole_device(
    some: list[Client], prompts: float, decodes: float, borrows: bool, slowed: float, host_s: float
) -> None:
    replica, _ = run(lanes(prompts, decodes, borrows), some, replace(COST, slowed=slowed, host_s=host_s))
    assert replica.slices is not None
    for start, end, _, n, tokens in replica.slices:
        assert end - start >= ps(host_s + COST.prompt_s * tokens + COST.decode_s * n) - 2
    ends = [end for _, end, *_ in replica.slices]
    starts = [start for start, *_ in replica.slices]
    work = sum(COST.prompt_s * tokens + COST.decode_s * n for *_, n, tokens in replica.slices)
    assert max(ends) - min(starts) >= ps(work) - 100 * len(ends)
