"""Steered scheduling before a scheduler in vLLM's shape: the same decisions as simulated, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poise.core.action import NONE, Batch, Entry
from poise.core.errors import PolicyError, UserError
from poise.core.policy import Victim
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.core.view import LaneView, SequenceView
from poise.cost.fitted import Fitted, save_fitted
from poise.live.vllm.refuse import refuse
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from tests.live.vllm.shape import AsyncScheduler, PauseState, Request, Scheduler, play, pretended
from tests.live.vllm.worlds import Ask, Step, World, a_world, in_order

CHOICES: tuple[dict[str, Any], ...] = (
    {"batcher": "chunked"},
    {"batcher": {"chunked": {"tokens": 24, "long_prefill": 16}}},
    {"batcher": "prefill_first"},
    {"batcher": "prefill_first", "queue": "priority"},
    {"queue": "program_fcfs"},
    {"batcher": {"sarathi": {"tokens": 24, "mixed": False}}},
    {"batcher": {"gathered": {"timeout_iters": 3, "max_tokens_ratio": 0.5}}, "queue": "priority"},
)
LONG = Ask(0, 100, 10)
SHORT = Ask(0, 20, 10)


@pytest.fixture
def poise() -> Iterator[Any]:
    """The module of the scheduler that asks policies, before the shape."""
    with pretended():
        import poise.scenario.serve.vllm as module

        yield module


def inside(world: World, *, ahead: bool = False) -> list[Step]:
    with pretended():
        from poise.scenario.serve.vllm import PoiseScheduler

        return in_order(play(world, PoiseScheduler(world, scheduler_config__async_scheduling=ahead)))


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from(CHOICES), st.booleans(), st.booleans(), st.booleans())
@example(0, CHOICES[-1], False, False, False)  # prompts are held for steps, which must be counted
def test_decides_as_simulated(seed: int, chosen: dict[str, Any], crowded: bool, caching: bool, reserve: bool) -> None:
    world = a_world(seed, chosen, crowded=crowded, caching=caching and not crowded, reserve=reserve)
    assert inside(world) == in_order(world.simulated())


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.booleans())
def test_the_shape_alone_does_what_chunked_asks(seed: int, crowded: bool) -> None:
    world = a_world(seed, None, crowded=crowded, caching=not crowded)
    assert in_order(play(world, Scheduler(world))) == in_order(world.simulated())


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_a_step_ahead_it_does_what_vllm_does_alone(seed: int, crowded: bool, reserve: bool) -> None:
    """Asynchronous scheduling: each step is decided before the tokens of the last are known."""
    world = a_world(seed, {"batcher": "chunked"}, crowded=crowded, caching=not crowded, reserve=reserve)
    alone = AsyncScheduler(world, scheduler_config__async_scheduling=True)
    assert inside(world, ahead=True) == in_order(play(world, alone))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(CHOICES))
def test_a_step_ahead_each_policy_computes_every_token_once(seed: int, chosen: dict[str, Any]) -> None:
    world = a_world(seed, chosen, caching=False)
    computed = [0] * len(world.asks)
    for _, tokens, _ in inside(world, ahead=True):
        for id, count in tokens.items():
            computed[id] += count
    assert computed == [ask.prompt + ask.output - 1 for ask in world.asks]


def test_where_prefixes_are_evicted_nearly_all_is_as_simulated() -> None:
    """One admission may evict what the next one in the same step would have found; policies are asked before both."""
    worlds = [a_world(seed, {"batcher": "chunked"}, crowded=True, caching=True) for seed in range(40)]
    steps = [inside(world) for world in worlds]
    as_simulated = sum(each == in_order(world.simulated()) for world, each in zip(worlds, steps, strict=True))
    as_vllm_alone = sum(
        each == in_order(play(world, Scheduler(world))) for world, each in zip(worlds, steps, strict=True)
    )
    assert as_simulated >= 38 and as_vllm_alone >= 34, (as_simulated, as_vllm_alone)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.booleans())
def test_decodes_that_are_left_out_keep_their_blocks_and_their_place(seed: int, crowded: bool) -> None:
    world = a_world(
        seed, {"batcher": "tests.live.vllm.behind:Behind"}, crowded=crowded, caching=not crowded, reserve=False
    )
    assert inside(world) == in_order(world.simulated())


class Oldest:
    """Preempts who has run longest."""

    def preempt(self, lane: LaneView) -> Victim:
        return Victim(next(iter([*lane.decodes(), *lane.prefilling])).id)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_policy_says_who_gives_way(seed: int) -> None:
    world = a_world(seed, {"preempt": f"{__name__}:Oldest"}, crowded=True, caching=False)
    assert inside(world) == in_order(world.simulated())


class Keeps:
    """Keeps every prefix for a day."""

    def cache(self, request: Any, sequence: SequenceView, lane: LaneView) -> int:
        return 86_400 * SECOND


class KeepsShort(Keeps):
    """Keeps the prefixes of short prompts."""

    def cache(self, request: Any, sequence: SequenceView, lane: LaneView) -> int:
        return super().cache(request, sequence, lane) if request.prompt_tokens < 100 else 0


def test_kept_prefixes_outlive_others_and_give_way_to_those_who_run(poise: Any) -> None:
    asks = (Ask(0, 64, 1, 0, 64), Ask(1, 200, 1), Ask(2, 200, 1), Ask(3, 96, 1, 0, 64))
    for chosen, computed in (({}, 96), ({"cache": f"{__name__}:KeepsShort"}, 32)):
        world = World(chosen, asks, blocks=9, budget=256)
        assert play(world, poise.PoiseScheduler(world))[-1][1] == {3: computed}, chosen
    larger = World(
        {"cache": f"{__name__}:Keeps"}, (asks[0], Ask(1, 280, 1), Ask(3, 64, 1, 0, 64)), blocks=9, budget=300
    )
    scheduler = poise.PoiseScheduler(larger)
    assert [tokens for _, tokens, _ in play(larger, scheduler)] == [{0: 64}, {1: 280}, {2: 64}], "room came first"
    assert scheduler.kv_cache_manager.get_num_free_blocks() < 9, "and the last one is kept"


def test_a_session_that_is_back_holds_what_it_needs_itself(poise: Any) -> None:
    world = World({"cache": f"{__name__}:Keeps"}, (), blocks=9, budget=256)
    scheduler = poise.PoiseScheduler(world)
    for number in range(3):
        request = Request(number, Ask(0, 64, 1, 0, 64))
        request.session_id = "one"
        scheduler.add_request(request)
        scheduler.update(scheduler.schedule())
        view = scheduler._driver.lane.seats
        assert scheduler.kv_cache_manager.get_num_free_blocks() == 7, "two blocks are kept, however often it comes"
    assert view._sessions.popitem()[1][0] == 3


def test_policies_see_what_clients_stated(poise: Any) -> None:
    scheduler = poise.PoiseScheduler(World({}, ()))
    seats = scheduler._driver.lane.seats
    request = Request(0, LONG)
    request.session_id = "s"
    request.sampling_params.extra_args = {
        "poise_tenant": "blue", "poise_deadline_s": 2.5, "poise_predicted_tokens": 40, "other": 1,
    }  # fmt: skip
    seen = seats.of(request, 7 * SECOND).request
    assert (seen.id, seen.arrived_at, seen.prompt_tokens, seen.max_tokens) == (0, 7 * SECOND, 100, 10)
    assert (seen.deadline_at, seen.predicted_tokens) == (95 * SECOND // 10, 40)
    assert seen.ends == (32, 64, 96) and len(set(seen.ids)) == 3 and min(seen.ids) >= 0
    assert seen.session >= 0 and seen.tenant >= 0 and seen.session != seen.tenant
    again = Request(1, LONG)
    again.session_id = "s"
    later = seats.of(again, 9 * SECOND).request
    assert (later.turn, later.begun_at, later.session) == (1, 7 * SECOND, seen.session)
    plain = seats.of(Request(2, SHORT), 9 * SECOND).request
    assert (plain.session, plain.tenant, plain.deadline_at, plain.turn) == (-1, -1, 0, 0)


def test_who_may_not_run_yet_is_not_shown(poise: Any) -> None:
    scheduler = poise.PoiseScheduler(World({}, ()))
    for number in range(3):
        scheduler.add_request(Request(number, SHORT))
    scheduler.deferred_waiting.add(scheduler.requests["0"])
    tokens = scheduler.schedule()
    assert tokens == {"1": 20, "2": 20}, "its grammar is being compiled"
    assert [each.request_id for each in scheduler.waiting] == ["0"]
    scheduler.deferred_waiting.clear()
    scheduler.update(tokens)
    scheduler.pause_state = PauseState.PAUSED_NEW
    tokens = scheduler.schedule()
    assert tokens == {"1": 1, "2": 1}
    assert [each.request_id for each in scheduler.waiting] == ["0"]
    scheduler.pause_state = PauseState.PAUSED_ALL
    scheduler.update(tokens)
    assert scheduler.schedule() == {}
    scheduler.pause_state = PauseState.UNPAUSED
    assert scheduler.schedule() == {"0": 20, "1": 1, "2": 1}


def test_who_leaves_is_forgotten(poise: Any) -> None:
    scheduler = poise.PoiseScheduler(World({"cache": f"{__name__}:Keeps"}, ()))
    for number in range(2):
        scheduler.add_request(Request(number, SHORT))
    scheduler.update(scheduler.schedule())
    for name, queue in (("0", scheduler.running), ("1", scheduler.running)):
        request = scheduler.requests[name]
        request.reason = "abort"
        queue.remove(request)
        scheduler._free_request(request)
    assert scheduler.schedule() == {} and scheduler._driver.lane.running == 0
    assert scheduler.kv_cache_manager.get_num_free_blocks() == 200, "nothing is kept of an answer that was cut off"


class Says:
    """Answers with one batch."""

    answer = Batch()

    def batch(self, lane: LaneView) -> Batch:
        return self.answer


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Batch((Entry(0, 8, 0, 2),)), "Says parts a step between layers, and this engine computes all of them"),
        (Batch((Entry(0, 8),), NONE, leave=True), "Says parts a step between layers"),
        (Batch((Entry(0, 8),), share=0.5), "Says asks for a share of the device, and this engine has all of it"),
        (Batch((Entry(0, 8),), setup=9), "Says asks for a setup before a step, and this engine has one layout"),
        (Batch((Entry(9, 8),)), "names a request that has no prompt to compute"),
        (Batch((Entry(0, 0),)), "gives its request no token of this step"),
        (Batch((Entry(0, 8), Entry(0, 8))), "gives its request no token of this step"),
        (Batch((Entry(0, 100), Entry(1, 100))), "puts 200 tokens into a step of 128 at most"),
        (Batch((Entry(0, 8), Entry(1, 8), Entry(2, 8))), "lets 3 requests run, of 2 at most"),
    ],
)
def test_a_batch_that_vllm_cannot_run_is_named(poise: Any, batch: Batch, message: str) -> None:
    world = World({"batcher": f"{__name__}:Says"}, (LONG, LONG, LONG), sequences=2)
    scheduler = poise.PoiseScheduler(world)
    scheduler._driver._batcher.answer = batch
    with pytest.raises(PolicyError, match=message):
        play(world, scheduler)


def test_a_batch_of_all_layers_by_number_is_whole(poise: Any) -> None:
    world = World({"batcher": f"{__name__}:Says"}, (LONG,))
    scheduler = poise.PoiseScheduler(world)
    scheduler._driver._batcher.answer = Batch((Entry(0, 8, 0, 4),), NONE)
    scheduler.add_request(Request(0, LONG))
    assert scheduler.schedule() == {"0": 8}


class Wrong:
    """Names nobody."""

    def preempt(self, lane: LaneView) -> Victim:
        return Victim(99)


def test_a_victim_that_does_not_run_is_named(poise: Any) -> None:
    world = World({"preempt": f"{__name__}:Wrong"}, (Ask(0, 32, 40), Ask(0, 32, 40)), blocks=3, caching=False)
    with pytest.raises(PolicyError, match="Wrong names Victim"):
        play(world, poise.PoiseScheduler(world))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"scheduler_config__policy": "priority"}, "leave it out and name `queue: priority`"),
        ({"vllm_config__speculative_config": object()}, "leave --speculative-config out"),
        ({"connector": object()}, "leave --kv-transfer-config out"),
        ({"is_encoder_decoder": True}, "several kinds of KV"),
        ({"kv_cache_config__kv_cache_groups": [None, None]}, "several kinds of KV"),
        ({"parallel_config__pipeline_parallel_size": 2}, "take --pipeline-parallel-size 1"),
        ({"parallel_config__decode_context_parallel_size": 2}, "context parallelism"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(poise: Any, limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        poise.PoiseScheduler(World({}, ()), **limits)
    assert "\n" not in str(caught.value)


class Half(Chunked):
    """Takes half of the device."""

    def batch(self, lane: LaneView) -> Batch:
        return Chunked.batch(self, lane)._replace(share=0.5)


@pytest.mark.parametrize(
    ("batcher", "message"),
    [
        ({"layered_prefill": {"tokens": 16}}, "LayeredPrefill parts a step between layers"),
        ("flow_prefill", "give `cost: FILE`"),
        ({"flow_prefill": {"leave": False}}, "give `cost: FILE`"),
        (f"{__name__}:Half", "Half asks for a share of the device"),
        ("medha", "give `cost: FILE`, which `poise calibrate` writes"),
    ],
)
def test_a_batcher_is_tried_before_any_request_is_served(poise: Any, batcher: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        poise.PoiseScheduler(World({"batcher": batcher}, ()))


def test_with_a_cost_a_batcher_keeps_its_limit(poise: Any, tmp_path: Path) -> None:
    save_fitted(Fitted(0.01, 0.001), tmp_path / "cost.json")
    chosen = {"batcher": {"medha": {"tbt_s": 0.05}}, "cost": str(tmp_path / "cost.json")}
    world = World(chosen, (Ask(0, 20, 30), Ask(2, 100, 1)))
    steps = play(world, poise.PoiseScheduler(world))
    assert [tokens[1] for _, tokens, _ in steps if 1 in tokens] == [40, 40, 20], "10 ms, and one more for each token"


class Notes(Chunked):
    """Notes what it is told."""

    reported: ClassVar[list[tuple[int, int]]] = []

    def served(self, request: RequestView, tokens: int, now: int) -> None:
        self.reported.append((request.id, tokens))


@pytest.mark.parametrize("crowded", [False, True])
def test_first_and_last_tokens_are_reported_as_simulated(crowded: bool) -> None:
    world = a_world(4, {"batcher": f"{__name__}:Notes"}, crowded=crowded, caching=False)
    Notes.reported.clear()
    inside(world)
    here = sorted(Notes.reported)
    Notes.reported.clear()
    inside(world, ahead=True)
    assert here == sorted(Notes.reported), "no token is told before it is made"
    Notes.reported.clear()
    world.simulated()
    assert here == sorted(Notes.reported) and len(here) == 2 * len(world.asks)


def test_swapping_is_refused_at_the_start(poise: Any) -> None:
    with pytest.raises(UserError, match="vLLM v1 only computes it again; take swap: false"):
        poise.PoiseScheduler(World({"preempt": {"last_admitted": {"swap": True}}}, ()))


@pytest.mark.parametrize(
    ("cache", "message"), [("oracle_ttl", "needs the future"), (f"{__name__}:Ranks", "ranks what is evicted")]
)
def test_a_cache_policy_that_needs_a_simulation_is_refused(poise: Any, cache: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        poise.PoiseScheduler(World({"cache": cache}, ()))


def test_a_queue_that_counts_what_was_served_is_refused(poise: Any) -> None:
    with pytest.raises(UserError, match="order them at the gateway"):
        poise.PoiseScheduler(World({"queue": "virtual_token_counter"}, ()))


class Ranks(Keeps):
    """Says what is evicted first."""

    def rank(self, sequence: Any, extent: int, blocks: int) -> int:
        return blocks


def test_another_vllm_is_refused() -> None:
    with pytest.raises(UserError, match=r"use 0\.32"):
        refuse(_Older(), Policies())


class _Older(Scheduler):
    """One without the place where Poise says how many tokens a request computes."""

    _reserve_prefill_lookahead = property()  # type: ignore[assignment]  # which `hasattr` does not find

    def __init__(self) -> None:
        super().__init__(World({}, ()))


def test_without_vllm_there_is_no_such_scheduler() -> None:
    with pretended():
        import sys

        for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
            sys.modules[name] = None  # type: ignore[assignment]
        with pytest.raises(UserError, match="install vllm"):
            import poise.live.vllm.scheduler  # noqa: F401
