"""Shared state under optimistic commits: what is accepted is as if one after another, and nothing is left undone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.workload.s_bus import WAYS, Bus, Locks, Way
from poise.workload.shared_state import shared_state
from tests.workload.played import Played, played

COUNTS = st.integers(1, 4)
TEAMS = st.fixed_dictionaries({"agents": COUNTS, "steps": COUNTS, "shards": COUNTS, "retries": st.integers(0, 3)})


def run(way: Way, took: list[int], **given: int | float) -> Played:
    made = shared_state(ps.workload.all_at_once(requests=2, prompt_tokens=1, output_tokens=1), way, **given)  # type: ignore[arg-type]
    return played(made, [took[row % len(took)] for row in range(len(made))])


@given(st.sampled_from(WAYS), st.lists(st.integers(1, 9), min_size=1, max_size=7), st.data(), TEAMS)
@settings(max_examples=80)
def test_every_step_is_accepted_or_given_up(
    way: Way, took: list[int], data: st.DataObject, team: dict[str, int]
) -> None:
    reads = data.draw(st.integers(0, team["shards"] - 1))
    done = run(way, took, **team, reads=reads, check_s=0)
    counts, rows = done.director.counts(), len(done.ended)
    assert counts["commits"] + counts["given_up"] == 2 * team["agents"] * team["steps"]
    assert counts["commits"] + counts["refused"] == rows, "each answer is accepted or refused"
    assert rows + len([*done.director.spare()]) == 2 * team["agents"] * team["steps"] * (team["retries"] + 1)
    if way in ("ori", "locks"):
        assert counts["stale"] == counts["lost"] == 0
    if way == "version":
        assert counts["lost"] == 0
    if way in ("overwrite", "locks"):
        assert counts["refused"] == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=60))
def test_accepted_commits_are_those_of_one_after_another(events: list[tuple[int, int, bool]]) -> None:
    """Reads and commits at random beside an oracle that remembers what each agent saw: its content, not a version."""
    bus, state, seen = Bus("ori", 4), [0] * 4, [dict[int, int]() for _ in range(3)]
    for number, (agent, shard, commits) in enumerate(events, 1):
        if commits and shard in seen[agent]:
            current = all(state[each] == content for each, content in seen[agent].items())
            accepted = not bus.checked(agent, shard) and bus.write(agent, shard)
            assert accepted == current, "refused just when something that it read is not what it was"
            state[shard] = number if accepted else state[shard]
        else:
            bus.get(agent, [shard])
            seen[agent][shard] = state[shard]


def test_between_check_and_write_two_commits_may_each_rest_on_what_the_other_changes() -> None:
    """Write skew: agents read one another's shard and end at once; in one piece, the second would be refused."""
    given = {"agents": 2, "steps": 1, "shards": 2, "reads": 1, "retries": 0}
    apart, at_once = (run("ori", [SECOND], **given, check_s=each).director.counts() for each in (1e-6, 0))
    assert (apart["commits"], apart["stale"]) == (4, 2), "of each team's two the second to be written"
    assert (at_once["commits"], at_once["stale"], at_once["refused"]) == (2, 0, 2)


def test_agents_on_one_shard_win_in_turn() -> None:
    """Of n that answer at once one is accepted: (n − 1) / n are refused, which is S-Bus's bound."""
    assert run("ori", [SECOND], agents=8, retries=0, check_s=0).director.counts()["refused_share"] == 7 / 8
    assert run("ori", [SECOND], agents=4, shards=4, retries=0).director.counts()["refused"] == 0
    locked = run("locks", [SECOND], agents=8, steps=3)
    assert max(locked.ended.values()) == 24 * SECOND + 23 * 5_000_000, "one after another, 5 µs apart"


def test_locks_are_had_in_order_of_need() -> None:
    locks = Locks(3)
    assert locks.ask(0, [0]) == [0] and locks.ask(1, [1, 0]) == [] and locks.ask(2, [2, 1]) == []
    assert locks.ask(3, [2]) == [], "it needs what agent 2 waits for"
    assert locks.give_back(0) == [1] and locks.give_back(1) == [2] and locks.give_back(2) == [3]


def test_retries_that_were_not_needed_leave_programs_whole() -> None:
    made = shared_state(ps.workload.poisson(1, requests=5, prompt_tokens=1, output_tokens=1), agents=3, steps=4)
    run = ps.simulate(ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b"), made)
    found = run.metrics().as_dict()
    assert found["programs"]["finished"] == 5 and found["counts"] == run.run.counts
    assert run.run.counts["refused"] > 0 and run.run.counts["lost"] == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="way is 'none'; give one of ori"):
        run("none", [1])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="reads is 1; it must be a whole number of at least 0 and at most 0"):
        run("ori", [1], reads=1)
