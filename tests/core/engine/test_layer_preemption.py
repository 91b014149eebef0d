"""Steps that are left between two layers, batches that wait, and what a batcher is told and foretold."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, NONE, UNTIL_CHANGE, Batch, Entry
from poise.core.engine.layer_preemption import LayerPass
from poise.core.engine.replica import Replica
from poise.core.errors import PolicyError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.request import RequestView
from poise.core.spec import Engine
from poise.core.units import ps
from poise.core.view import LaneView
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from poise.testing.solo import Client, drive

COST = LinearCost(step_s=1.0, prompt_s=0.1, decode_s=0.5, kv_s=0.01, layers=10)


def a_pass(tokens: int = 100) -> LayerPass:
    """One second of the step itself, and one for each of ten layers."""
    return begun((1,), Chunk(tokens, 0), None)


def begun(ids: tuple[int, ...], chunk: Chunk, before: LayerPass | None, swapping: int = 0) -> LayerPass:
    """A pass that begins now, as a lane begins it."""
    lane = a_lane(cost=COST, layers=10)
    duration = lane.estimate(StepShape(0, (chunk,))).base + swapping
    return LayerPass(10, lane.estimate, ids, (chunk,), 1.0, duration, swapping, before)


@pytest.mark.parametrize(
    ("elapsed", "passed", "boundary"),
    [(0.0, False, 2), (2.0, False, 2), (2.0, True, 3), (2.5, True, 3), (10.5, True, 11)],
)
def test_a_pass_ends_at_its_next_boundary(elapsed: float, passed: bool, boundary: int) -> None:
    some = a_pass()
    assert some.leave(ps(elapsed), passed) == ps(boundary)
    assert some.last == boundary - 1


def test_of_boundaries_at_one_instant_the_last_is_taken() -> None:
    assert a_pass(0).next_after(0) == (10, ps(1.0))


def test_what_goes_on_at_once_costs_what_was_left() -> None:
    """Looking costs nothing, being left for another costs one more step's own second."""
    some = a_pass()
    some.leave(ps(4.2), False)
    rest = Chunk(100, 0, some.last, 10)
    assert begun((1,), rest, some).duration == ps(11.0 - 5.0)
    assert begun((1,), rest, None).duration == ps(1.0 + 6.0)
    assert begun((2,), rest, some).duration == ps(1.0 + 6.0)


def test_what_is_swapped_in_comes_before_the_first_layer() -> None:
    some = begun((1,), Chunk(100, 0), None, swapping=ps(3.0))
    assert some.duration == ps(3.0 + 11.0)
    assert some.leave(ps(2.0), False) == ps(3.0 + 2.0)


class Urgent:
    """The newest prompt first, whole, in passes that are left."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def served(self, request: RequestView, tokens: int, now: int) -> None:
        self.calls.append((request.id, tokens, now))

    def batch(self, lane: LaneView) -> Batch:
        known = [*lane.prefilling, *lane.queue()]
        if not known:
            return Batch((), ALL, UNTIL_CHANGE)
        newest = max(known, key=lambda each: each.id)
        tokens = newest.chunk or newest.need
        last = lane.model_layers if newest.layer else 0
        return Batch((Entry(newest.id, tokens, newest.layer, last),), NONE, leave=True)


def driven(one_step: bool) -> tuple[list[tuple[int, str, int]], Urgent]:
    batcher = Urgent()
    replica = Replica(Engine(prefix_caching=False), COST, 100, Policies(batcher=batcher), layers=10, one_step=one_step)
    clients = [Client(RequestView(0, 0, 100), 1), Client(RequestView(1, ps(3.5), 10), 1)]
    return drive(replica, clients), batcher


def test_a_newcomer_is_heard_at_the_next_layer() -> None:
    """The long prompt is left at 4 s, the short one takes 2 s, the long one's rest 7 layers and a step's second."""
    log, batcher = driven(False)
    assert [(at, who) for at, what, who in log if what == "first token"] == [(ps(6.0), 1), (ps(14.0), 0)]
    assert batcher.calls == [(1, 1, ps(6.0)), (1, 1, ps(6.0)), (0, 1, ps(14.0)), (0, 1, ps(14.0))]
    assert driven(True)[0] == log


def test_decodes_cannot_be_left_between_layers() -> None:
    class Careless(Urgent):
        def batch(self, lane: LaneView) -> Batch:
            return Urgent.batch(self, lane)._replace(decode=ALL)

    replica = Replica(Engine(), COST, 100, Policies(batcher=Careless()), layers=10)
    clients = [Client(RequestView(0, 0, 10), 9), Client(RequestView(1, ps(3.5), 10), 1)]
    with pytest.raises(PolicyError, match="give decode=NONE, or leave=False"):
        drive(replica, clients)


class Patient(Chunked):
    """Lets prompts wait until the fifth second of each ten."""

    def batch(self, lane: LaneView) -> Batch:
        begin = -(-lane.now // ps(5.0)) * ps(5.0)
        if lane.waiting and lane.now != begin:
            return Batch((), ALL, UNTIL_CHANGE, wake_at=begin)
        return Chunked.batch(self, lane)


@pytest.mark.parametrize("one_step", [False, True])
def test_a_lane_waits_until_an_instant(one_step: bool) -> None:
    replica = Replica(Engine(), COST, 100, Policies(batcher=Patient()), layers=10, one_step=one_step)
    log = drive(replica, [Client(RequestView(0, ps(1.0), 10), 1)])
    assert (ps(7.0), "first token", 0) in log


def test_an_instant_that_is_over_is_refused() -> None:
    class Late(Chunked):
        def batch(self, lane: LaneView) -> Batch:
            return Batch((), ALL, wake_at=lane.now)

    replica = Replica(Engine(), COST, 100, Policies(batcher=Late()))
    with pytest.raises(PolicyError, match="give a later wake_at, or 0"):
        drive(replica, [Client(RequestView(0, 5, 10), 1)])


def test_predictions_are_the_cost_models() -> None:
    decoding = [(a_request(id=number, prompt_tokens=16, ids=()), 1) for number in range(2)]
    lane = a_lane(cost=COST, decoding=decoding, layers=10)
    assert lane.predict((Chunk(10, 0),), NONE) == ps(2.0)
    assert lane.predict((), NONE, share=0.5) == ps(2.0)
    assert lane.predict((), 4, 100) == ps(1.0 + 2.0 + 1.0)
    assert lane.predict(()) == ps(1.0 + 1.0 + 0.01 * 2 * 17)
    assert lane.total_blocks - lane.free_blocks == 4  # 17 tokens each
    assert lane.decoding_prompts == 32


def test_predictions_follow_the_pieces_of_a_cost() -> None:
    """Up to 20 KV tokens a step takes a second, with more as many tenths as there are tokens."""

    class Bent(LinearCost):
        def step(self, shape: StepShape) -> Piece:
            return Piece(ps(1.0), until_kv=20, then=Piece(0, ps(0.1)))

    lane = a_lane(cost=Bent(), decoding=[(a_request(prompt_tokens=29, ids=()), 1)])
    assert lane.predict((Chunk(10, 0),), 1, 20) == ps(1.0)
    assert lane.predict((Chunk(10, 0),), 1, 30) == lane.predict((Chunk(10, 0),)) == ps(3.0)
