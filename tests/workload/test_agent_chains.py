"""Sub-agents without a marker: which requests are whose, and what waits for what."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.workload import read
from poise.workload.oddities import trace_line
from poise.workload.readers.agent_chains import chains_of, shared
from poise.workload.readers.agent_order import Ended, Stream, frontier
from poise.workload.readers.hash_chains import Chains, Extents
from poise.workload.readers.weka import Conversation, Entry
from tests.workload.agent_files import conversation, put_lines, request, threads
from tests.workload.test_weka import by_prompt, column, waits

Turn = tuple[float, float | None, list[int]]
"""When a request began, how long it took, and the ids of its prompt."""


def laid(turns: list[Turn], models: list[str] | None = None) -> tuple[list[Entry], list[Extents]]:
    """Requests, with their prompts as extents."""
    entries = [
        Entry(t=t, api_time=took, prompt=64 * len(ids) + 1, output=100, hash_ids=list(ids), model="m")
        for t, took, ids in turns
    ]
    for entry, model in zip(entries, models or [], strict=False):
        entry.model = model
    made = Chains()
    made.add(Conversation(requests=entries))
    return entries, next(iter(made.extents()))


def found(turns: list[Turn], models: list[str] | None = None) -> list[int]:
    """The chain of each request."""
    return chains_of(*laid(turns, models))


CASES: dict[str, tuple[list[Turn], list[int]]] = {
    "turns that grow are one agent": ([(0, 1, [1]), (2, 1, [1, 2]), (4, 1, [1, 2, 3])], [0, 0, 0]),
    "one that begins while its prefix is under way is another agent": ([(0, 9, [1]), (2, 1, [1, 2])], [0, 1]),
    "the longest complete prefix is extended": (
        [(0, 1, [1]), (2, 5, [1, 2]), (3, 1, [1, 3]), (9, 1, [1, 3, 4]), (12, 1, [1, 2, 4])],
        [0, 0, 1, 1, 0],
    ),
    "an edited context goes on": ([(0, 1, [1, 2, 3]), (2, 1, [1, 2, 4]), (4, 1, [1, 2, 4, 5])], [0, 0, 0]),
    "unless the longer one returns": ([(0, 1, [1, 2, 3]), (2, 1, [1, 2, 4]), (4, 1, [1, 2, 3, 5])], [0, 1, 0]),
    "of two forks the deeper one goes on": ([(0, 1, [1, 2, 3]), (2, 9, [1, 4]), (3, 1, [1, 2, 5])], [0, 1, 0]),
    "of equal forks the first one goes on": ([(0, 1, [1, 2, 3]), (2, 9, [1, 2, 4]), (3, 1, [1, 2, 5])], [0, 0, 1]),
    "a fork that began before the end does not": ([(0, 9, [1, 2, 3]), (2, 1, [1, 2, 4]), (11, 1, [1, 5])], [0, 1, 0]),
    "what was left is asked again of the new end": (
        [(0, 1, [1, 2, 3]), (2, 1, [1, 2, 4]), (4, 1, [1, 5])],
        [0, 0, 0],
    ),
    "a far fork that shares little is another session": ([(0, 1, [1, 2, 3]), (3602, 1, [1, 9])], [0, 1]),
    "a far fork that shares half goes on": ([(0, 1, [1, 2]), (3602, 1, [1, 9])], [0, 0]),
    "a first request of its own prefix is the main agent's": ([(0, 1, [7]), (2, 1, [1]), (4, 1, [1, 2])], [0, 0, 0]),
    "prompts without a common prefix are agents": (
        [(0, 1, [1]), (2, 1, [1, 2]), (4, 1, [8]), (6, 1, [9])],
        [0, 0, 1, 2],
    ),
    "no ids, no evidence": ([(0, 1, []), (0.5, 1, [1]), (0.7, 1, []), (3, 1, [1, 2])], [0, 0, 0, 0]),
}


@pytest.mark.parametrize("case", CASES)
def test_whose_request_is_whose(case: str) -> None:
    turns, expected = CASES[case]
    assert found(turns) == expected


def test_another_model_is_another_agent() -> None:
    turns: list[Turn] = [(0, 1, [1]), (2, 1, [1, 2]), (4, 1, [1, 2, 3])]
    assert found(turns, ["m", "small", "m"]) == [0, 1, 0]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.lists(st.integers(0, 2), max_size=5)), max_size=9))
def test_a_chain_is_one_after_the_other(drawn: list[tuple[int, int, list[int]]]) -> None:
    """In every chain prompts share a prefix with the one before, which was answered; numbers follow first requests."""
    turns: list[Turn] = sorted(((float(t), float(took), ids) for t, took, ids in drawn), key=lambda turn: turn[0])
    entries, prompts = laid(turns)
    chains = chains_of(entries, prompts)
    assert list(dict.fromkeys(chains)) == list(range(len(set(chains))))
    for chain in set(chains):
        rows = [row for row, each in enumerate(chains) if each == chain and len(prompts[row].ids)]
        for before, row in list(pairwise(rows))[chain == 0 :]:
            assert turns[before][0] + (turns[before][1] or 0) <= turns[row][0]
            assert shared(prompts[before], prompts[row])


def test_what_starts_and_what_joins(tmp_path: Path) -> None:
    """An agent begins behind the turn before it, or with one that is under way; the turn after its end waits for it."""
    turns = [
        request(0.0, 640, api_time=2.0, ids=[1]),
        request(3.0, 650, api_time=4.0, ids=[1, 2]),  # main, behind the first
        request(3.5, 660, api_time=1.0, ids=[1, 3]),  # an agent that begins with that turn, 0.5 s later
        request(5.0, 670, api_time=9.0, ids=[1, 3, 4]),  # its second turn
        request(8.0, 680, api_time=1.0, ids=[1, 2, 5]),  # main; the agent's first turn was over, its second not
        request(15.0, 690, api_time=1.0, ids=[1, 2, 5, 6]),  # main; the agent was over
        request(16.5, 700, api_time=1.0, ids=[1, 9]),  # an agent behind the last turn
        request(16.8, 710, api_time=1.0, ids=[1, 2, 5, 6, 7]),  # main, beside it
    ]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    row = by_prompt(made)
    expected = {
        640: {},
        650: {640: 1.0},
        660: {640: 1.5},
        670: {660: 0.5, 640: 0.0},
        680: {650: 1.0, 660: 0.0},
        690: {680: 6.0, 670: 0.0},
        700: {690: 0.5},  # not for 670, which 690 has waited for
        710: {690: 0.8, 670: 0.0},
    }
    for prompt, before in expected.items():
        assert waits(made)[row[prompt]] == pytest.approx({row[each]: wait for each, wait in before.items()})
    agents = {prompt: column(made, "agent")[at] for prompt, at in row.items()}
    assert agents == {640: 0, 650: 0, 660: 1, 670: 1, 680: 0, 690: 0, 700: 2, 710: 0}
    assert made.source["flattened"] == 2 and "2 sub-agents without a marker found by their prompts" in trace_line(
        made.source
    )
    assert {made.stages[each] for each in column(made, "stage")} == {"main", "flattened"}


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=12))
def test_the_frontier_by_its_definition(drawn: list[tuple[int, int, int]]) -> None:
    """Compared with all pairs: of each other stream the last that was over, without those that another waited for."""
    drawn = sorted(drawn, key=lambda each: each[1])
    streams = [Stream(number, "") for number in range(3)]
    past: list[tuple[int, Ended]] = []
    for row, (number, begin, took) in enumerate(drawn):
        over = [
            max(
                (each for stream, each in past if stream == other and each.begin < begin and each.over <= begin),
                key=lambda each: (each.over, each.begin, each.row),
                default=None,
            )
            for other in range(3)
            if other != number
        ]
        known = [each for each in over if each is not None]
        last = [each for each in known if not any(each.begin < x.begin and each.over <= x.begin for x in known)]
        assert frontier(streams, streams[number], float(begin)) == last
        request = Ended(row, float(begin), float(begin + took))
        streams[number].add(request)
        past.append((number, request))


@settings(max_examples=100)
@given(threads(0, 0.0, 8))
def test_a_replay_keeps_the_recorded_order(
    tmp_path_factory: pytest.TempPathFactory, turns: list[dict[str, Any]]
) -> None:
    """Of two requests the one that was over when the other began is among what that one waits for, or they wait for."""
    turns = [{**turn, "in": 1000 + at, "hash_ids": turn["hash_ids"][:15]} for at, turn in enumerate(turns)]
    made = read(put_lines(tmp_path_factory.mktemp("t"), [conversation(turns)]))
    row, before = by_prompt(made), list[set[int]]()
    for known in waits(made):
        before.append(set(known).union(*(before[each] for each in known)))
    for late in turns:
        for early in turns:
            over = early["t"] + early.get("api_time", 0.0)
            if early["t"] < late["t"] and over <= late["t"]:
                assert row[early["in"]] in before[row[late["in"]]]
