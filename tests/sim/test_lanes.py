"""Conversations in lanes: what is conserved, what waits for what, and how long nothing may be under way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import poise as ps
from poise.core.errors import ScenarioError
from poise.core.records.records import CANCELLED, FINISHED, Run
from poise.core.spec import Slo
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.find import build
from poise.report.metrics import measure
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching
from poise.sim.world import World
from poise.workload import Workload, by_stamps, in_lanes, read
from tests.depth import DEEP
from tests.workload.agent_files import TREES, Entry, conversation, marker, put_lines, request

CLUSTER = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
LONG = 1e6
"""Seconds that no test waits: a cap that cuts nothing."""


def recorded(folder: Path, trees: list[Entry]) -> Workload:
    return read(put_lines(folder, trees))


def run_of(
    made: Workload, watch: Callable[[World], None] | None = None, *, one_step: bool = False, router: str = "cache_aware"
) -> Run:
    policies = Policies(router=build("router", router))
    return simulate(CLUSTER, made, policies, watching=Watching(after_event=watch), one_step=one_step)


def instants(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
    records = run.records
    return np.asarray(records.arrived_at), np.asarray(records.ended_at), np.asarray(records.status)


def edges(made: Workload) -> list[tuple[int, int, int]]:
    """Row, the row that it waits for, and the picoseconds in between."""
    assert made.after_offsets is not None and made.after_ids is not None and made.after_delay is not None
    rows = np.repeat(np.arange(len(made)), np.diff(made.after_offsets))
    return list(zip(rows.tolist(), made.after_ids.tolist(), made.after_delay.tolist(), strict=True))


def idle(run: Run, until: int) -> int:
    """The longest time between `run.counted_from` and `until` in which nothing was under way."""
    arrived, ended, _ = instants(run)
    mine = arrived >= run.counted_from
    last, longest = run.counted_from, 0
    for begin, end in sorted(zip(arrived[mine].tolist(), ended[mine].tolist(), strict=True)):
        longest = max(longest, min(begin, until) - last)
        last = max(last, end)
    return longest


GIVEN: dict[str, Any] = {
    "lanes": st.integers(1, 4),
    "seed": st.integers(0, 9),
    "start": st.sampled_from(((0.0, 0.0), (0.0, 1.0), (0.25, 0.75))),
    "primers": st.booleans(),
    "idle_cap_s": st.sampled_from((3.0, LONG)),
    "tree_idle_cap_s": st.sampled_from((20.0, LONG)),
    "grace_s": st.sampled_from((0.0, 0.3, 30.0)),
    "duration_s": st.sampled_from((5.0, 200.0)),
}


@pytest.mark.deep
@settings(max_examples=60 if DEEP else 6)
@given(st.lists(TREES, min_size=1, max_size=3), st.fixed_dictionaries(GIVEN))
def test_what_lanes_keep(tmp_path_factory: pytest.TempPathFactory, trees: list[Entry], options: dict[str, Any]) -> None:
    made = in_lanes(recorded(tmp_path_factory.mktemp("t"), trees), **options)
    lanes = made.check().lanes
    assert lanes is not None
    under_way: list[int] = []

    def watch(world: World) -> None:
        assert world.clients.lanes is not None
        under_way.append(world.clients.lanes.under_way)

    run = run_of(made, watch)
    arrived, ended, status = instants(run)
    came, until = arrived >= 0, run.counted_from + lanes.duration
    assert max(under_way) <= options["lanes"]
    # Each request that came ended once, and those that did not come were never begun.
    assert (ended[came] >= arrived[came]).all() and (ended[~came] < 0).all()
    assert set(np.unique(status[came])) <= {FINISHED, CANCELLED} and run.offered == came.sum()
    # What fills the caches is over before anything counts; nothing comes after the end, or lasts beyond the grace.
    assert (arrived[lanes.primer] < run.counted_from).all() and (ended[lanes.primer] < run.counted_from).all()
    assert (arrived[came & ~lanes.primer] >= run.counted_from).all() and (arrived[came & ~lanes.primer] < until).all()
    assert (ended[came & ~lanes.primer] <= until + lanes.grace).all()
    assert not (status[came & (ended < until + lanes.grace)] == CANCELLED).any()
    # A request comes when all that it waits for has ended: after the gap, or sooner where nothing was under way.
    uncut = options["idle_cap_s"] == options["tree_idle_cap_s"] == LONG
    latest: dict[int, int] = {}
    for row, before, wait in edges(made):
        if came[row] and not lanes.primer[row]:
            assert status[before] == FINISHED and ended[before] <= arrived[row]
            latest[row] = max(latest.get(row, 0), int(ended[before]) + wait)
            if uncut:
                assert arrived[row] >= ended[before] + wait
    assert not uncut or all(arrived[row] == at for row, at in latest.items())
    assert idle(run, until) <= max(lanes.idle, 0) or made.source["in_lanes"]["all"] is False
    # Answers have their recorded lengths.
    done = status == FINISHED
    assert (np.asarray(run.records.output_tokens)[done] == made.output[done]).all()


@pytest.mark.deep
@settings(max_examples=15 if DEEP else 3)
@given(st.lists(TREES, min_size=1, max_size=2), st.fixed_dictionaries(GIVEN))
def test_held_batches_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, trees: list[Entry], options: dict[str, Any]
) -> None:
    made = in_lanes(recorded(tmp_path_factory.mktemp("t"), trees), **options)
    fast, slow = run_of(made), run_of(made, one_step=True)
    for name in ("arrived_at", "first_token_at", "ended_at", "status", "replica", "cached_tokens"):
        assert getattr(fast.records, name) == getattr(slow.records, name), name
    assert fast.counted_from == slow.counted_from


CHAT = [request(0.0, 640, api_time=1.0), request(5.0, 1280, api_time=1.0), request(400.0, 1920, api_time=1.0)]


def test_a_play_finds_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    """One conversation over and over on one replica: its first prompt is never cached, the later ones find it."""
    made = in_lanes(recorded(tmp_path, [conversation(CHAT)]), 1, start=(0, 0), duration_s=200, primers=False)
    one = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    run = simulate(one, made)
    arrived, _, _ = instants(run)
    cached, prompt = np.asarray(run.records.cached_tokens), made.prompt
    assert (arrived[prompt == 640] >= 0).sum() >= 8
    assert (cached[(prompt == 640) & (arrived >= 0)] == 0).all()
    assert (cached[(prompt == 1920) & (arrived >= 0)] == 1280).all()


def test_primers_fill_the_cache_of_where_a_lane_begins(tmp_path: Path) -> None:
    made = in_lanes(recorded(tmp_path, [conversation(CHAT)]), 1, start=(0.5, 0.5), duration_s=100)
    assert made.lanes is not None and made.lanes.primer.sum() == 1
    one = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    run = simulate(one, made)
    first = int(np.flatnonzero(~made.lanes.primer)[0])
    primer = int(np.flatnonzero(made.lanes.primer)[0])
    assert (made.prompt[primer], made.output[primer], made.prompt[first]) == (1280, 1, 1920)
    assert run.records.cached_tokens[first] == 1280
    # Half of 399 s is over: the rest of the gap is 200.5 s, of which the cap leaves 10.
    assert run.records.arrived_at[first] == run.counted_from + 10 * SECOND
    figures = measure(run, one, Slo())
    assert figures.requests == sum(1 for each in instants(run)[0] if each >= run.counted_from)


def test_what_a_conversation_waits_for_is_capped(tmp_path: Path) -> None:
    """Two lanes: one always busy, one that waits 398 s, of which its own cap leaves 50."""
    busy = [request(float(at), 640, 2000, api_time=0.5) for at in range(400)]
    trace = recorded(tmp_path, [conversation(CHAT, name="a"), conversation(busy, name="b")])
    made = in_lanes(trace, 2, start=(0, 0), duration_s=120, tree_idle_cap_s=50, primers=False)
    run = run_of(made)
    arrived, ended, _ = instants(run)
    play = int((made.session if made.session is not None else arrived)[made.prompt == 1920][0])
    rows = {int(made.prompt[row]): row for row in np.flatnonzero((made.session == play) & (made.output == 20))}
    assert arrived[rows[1920]] - ended[rows[1280]] == 50 * SECOND


def test_lanes_hold_their_subagents(tmp_path: Path) -> None:
    """The last request of a conversation is over before those in its background: the lane waits for these."""
    trees = [conversation([request(0.0, 640, 5, api_time=0.1), marker(0.2, [request(0.0, 128, 3000, api_time=20.0)])])]
    made = in_lanes(recorded(tmp_path, trees), 1, start=(0, 0), duration_s=60, primers=False)
    run = run_of(made)
    arrived, ended, _ = instants(run)
    assert made.session is not None
    for play in range(1, int(made.session.max()) + 1):
        mine, before = made.session == play, made.session == play - 1
        if (arrived[mine] >= 0).any():
            assert arrived[mine & (arrived >= 0)].min() >= ended[before].max()
    figures = measure(run, CLUSTER, Slo()).agents
    assert figures is not None and figures.finished >= 2 and figures.subagents >= 2
    assert figures.subagent_s.p50 is not None and figures.subagent_s.p50 > 5


def test_figures_by_hand(tmp_path: Path) -> None:
    """Tokens of finished requests over the run, and the inverse of the 90th percentile of seconds per token."""
    made = in_lanes(recorded(tmp_path, [conversation(CHAT)]), 2, start=(0, 0), duration_s=100, primers=False)
    run = run_of(made)
    figures = measure(run, CLUSTER, Slo()).agents
    assert figures is not None and figures.lanes == 2
    arrived, ended, status = instants(run)
    done = status == FINISHED
    tokens = int(made.prompt[done].sum() + made.output[done].sum())
    assert figures.prompt_tokens + figures.output_tokens == tokens
    lasted = (run.ended_at - run.counted_from) / SECOND
    assert figures.tokens_per_s == pytest.approx(tokens / lasted)
    assert figures.tokens_per_s_per_device == pytest.approx(tokens / lasted / 2)
    slow = np.sort((ended - arrived)[done] / made.output[done])
    assert figures.interactivity.p90 == pytest.approx(SECOND / slow[int(np.ceil(0.9 * len(slow))) - 1], rel=1e-6)
    hits = measure(run, CLUSTER, Slo()).prefix_hit_rate
    assert hits is not None and figures.theoretical_hit_rate is not None and hits <= figures.theoretical_hit_rate


def test_open_loop_comes_by_its_stamps(tmp_path: Path) -> None:
    made = by_stamps(recorded(tmp_path, [conversation(CHAT)]))
    run = run_of(made)
    assert [each / SECOND for each in run.records.arrived_at] == [0.0, 5.0, 400.0]


def test_what_lanes_refuse(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [conversation(CHAT)])
    for options, expected in (
        ({"lanes": 0}, "lanes is 0"),
        ({"start": (0.6, 0.5)}, r"start is \[0.6, 0.5\]; give two shares"),
        ({"duration_s": 0}, "duration_s is 0"),
        ({"max_context": 700}, "max_context 700: every conversation has more tokens"),
    ):
        with pytest.raises(ScenarioError, match=expected):
            in_lanes(trace, **{"lanes": 1, **options})  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="does not say which request follows which"):
        in_lanes(ps.workload.poisson(1.0, requests=5), 2)
    with pytest.raises(ScenarioError, match="change their number"):
        in_lanes(trace, 2).scaled(2.0)
