"""Conversations in the Weka format: what waits for what, what prompts share, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import TraceError
from poise.core.units import SECOND
from poise.workload import Workload, read, read_lengths
from poise.workload.oddities import trace_line
from poise.workload.readers.hash_chains import compressed
from tests.workload.agent_files import BLOCK, TREES, Entry, conversation, flat, marker, put_lines, request


def waits(made: Workload) -> list[dict[int, float]]:
    """For each row the rows that it waits for, with the seconds from the end of each."""
    assert made.after_offsets is not None and made.after_ids is not None and made.after_delay is not None
    pairs = list(zip(made.after_ids.tolist(), (made.after_delay / SECOND).tolist(), strict=True))
    spans = zip(made.after_offsets[:-1].tolist(), made.after_offsets[1:].tolist(), strict=True)
    return [dict(pairs[begin:end]) for begin, end in spans]


def column(made: Workload, name: str) -> list[int]:
    """One of the optional columns."""
    found: list[int] = getattr(made, name).tolist()
    return found


def by_prompt(made: Workload) -> dict[int, int]:
    """The row of each prompt, where all have lengths of their own."""
    return {int(tokens): row for row, tokens in enumerate(made.prompt)}


def test_turns_follow_one_another_after_the_recorded_gap(tmp_path: Path) -> None:
    turns = [
        request(5.0, 640, api_time=2.0),
        request(10.0, 700, think_time=2.5),
        request(20.0, 800),
        request(21.0, 900, stop="end_turn", api_time=0.5),
        request(21.5, 950),
    ]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    assert waits(made) == [{}, {0: 2.5}, {1: 10.0}, {2: 1.0}, {3: 0.0}]
    assert made.arrival[0] == 0 and not any(column(made, "session") + column(made, "agent"))
    assert [made.tools[each] if each >= 0 else "" for each in column(made, "tool")] == ["tool"] * 3 + ["user", ""]


def test_a_turn_waits_for_its_subagents(tmp_path: Path) -> None:
    """Adjacent markers join one wait; without a turn before one is left out, without a turn behind nothing waits."""
    inner = [request(0.2, 110, api_time=1.0), request(3.2, 120, api_time=1.0)]
    turns = [
        marker(0.0, [request(0.0, 100)]),
        request(1.0, 200, api_time=1.0),
        marker(2.5, inner),
        marker(2.6, [request(0.4, 130, api_time=5.0)]),
        request(10.0, 300, api_time=1.0),
        marker(11.5, [request(0.5, 140)]),
    ]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    row = by_prompt(made)
    assert 100 not in row
    found = waits(made)
    assert found[row[110]] == pytest.approx({row[200]: 0.7}) and found[row[120]] == pytest.approx({row[110]: 2.0})
    assert found[row[130]] == pytest.approx({row[200]: 1.0})
    assert found[row[300]] == pytest.approx({row[120]: 3.3, row[130]: 2.0, row[200]: 0.0})
    assert found[row[140]] == pytest.approx({row[300]: 1.0})
    agents = {tokens: column(made, "agent")[at] for tokens, at in row.items()}
    assert agents == {200: 0, 110: 1, 120: 1, 130: 2, 300: 0, 140: 3}
    assert {made.stages[each] for each in column(made, "stage")} == {"main", "explore"}
    assert made.source["dropped_subagents"] == 1 and made.source["background"] == 1 and made.source["subagents"] == 3
    line = trace_line(made.source)
    assert "1 sub-agent without requests or without one that started it left out" in line and "background" in line


@pytest.mark.parametrize("relative", [True, False])
def test_both_clocks_of_subagents(tmp_path: Path, relative: bool) -> None:
    """Times of a sub-agent count from its marker, or from the beginning, as the corpus shows."""
    base = 0.0 if relative else 4.0
    inner = [request(base + 0.5, 110, api_time=1.0)]
    turns = [request(0.0, 200, api_time=2.0), marker(4.0, inner), request(9.0, 300)]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    row = by_prompt(made)
    assert waits(made)[row[110]] == {row[200]: 2.5} and waits(made)[row[300]][row[110]] == 3.5


def test_a_marker_may_stand_where_its_subagent_ended(tmp_path: Path) -> None:
    """As in the original corpus: one that lasted 60 s cannot have begun 5 s before the turn that waited for it."""
    inner = [request(0.0, 110, api_time=50.0)]
    turns = [request(0.0, 200, api_time=2.0), marker(63.0, inner, duration_ms=60000), request(68.0, 300)]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    row = by_prompt(made)
    assert waits(made)[row[110]] == {row[200]: 1.0} and waits(made)[row[300]][row[110]] == 15.0


@settings(max_examples=60)
@given(st.lists(TREES, min_size=1, max_size=3))
def test_random_trees(tmp_path_factory: pytest.TempPathFactory, trees: list[Entry]) -> None:
    """Every request is there once, behind those that it waits for, and each prompt shares what its ids say."""
    made = read(put_lines(tmp_path_factory.mktemp("t"), trees)).check()
    entries = [entry for each in trees for entry in flat(each["requests"])]
    assert len(made) == len(entries)
    assert sorted(made.prompt.tolist()) == sorted(entry["in"] for entry in entries)
    assert int(made.output.sum()) == sum(max(entry["out"], 1) for entry in entries)
    for row, before in enumerate(waits(made)):
        for other, wait in before.items():
            assert other < row and wait >= 0 and column(made, "session")[other] == column(made, "session")[row]
    roots = [row for row, before in enumerate(waits(made)) if not before]
    first = np.unique(np.array(column(made, "session"))[roots], return_counts=True)[1]
    assert len(first) == len(trees) and int((first - 1).sum()) <= made.source.get("flattened", 0)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), max_size=8), st.booleans()).map(
            lambda drawn: [each + (10 * at if drawn[1] else 0) for at, each in enumerate(drawn[0])]
        ),
        min_size=1,
        max_size=7,
    ),
    st.sampled_from((0, 1 << 60, -5)),
)
def test_extents_share_what_blocks_share(prompts: list[list[int]], shift: int) -> None:
    """Whatever the ids: two prompts have the same extents up to where their lists part, and none beyond."""
    found = compressed([np.array(each, np.int64) + shift for each in prompts], [BLOCK] * len(prompts))
    for one, mine in zip(prompts, found, strict=True):
        assert (mine.ends[-1] if len(mine.ends) else 0) == BLOCK * len(one)
        assert (np.diff(mine.ends) > 0).all() and (mine.ends > 0).all()
        for other, its in zip(prompts, found, strict=True):
            alike = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
            alike = min(len(one), len(other)) if alike is None else alike
            shared = int(np.isin(mine.ids, its.ids).sum())
            assert (mine.ends[shared - 1] if shared else 0) == BLOCK * alike
            assert (mine.ids[:shared] == its.ids[:shared]).all()


def test_ids_are_local_to_a_conversation_or_global(tmp_path: Path) -> None:
    turns = [request(0.0, 640), request(9.0, 1280)]
    for scope, shared in (("local", False), ("global", True)):
        made = read(put_lines(tmp_path, [conversation(turns, scope), conversation(turns, scope)]))
        assert made.prefixes is not None
        rows = [set(made.prefixes.ids[made.prefixes.rows == row].tolist()) for row in range(4)]
        of = column(made, "session")
        assert (
            bool(set.union(*(ids for ids, each in zip(rows, of, strict=True) if each == 0)) & rows[of.index(1)])
            is shared
        )
    assert made.reachable_hit_rate(64) > 0.5


def test_a_part_block_is_the_prompts_own(tmp_path: Path) -> None:
    """Without its id, as in the original corpus, or with one."""
    turns = [request(0.0, 100, ids=[1]), request(1.0, 100, ids=[1, 2]), request(2.0, 164, ids=[1, 2])]
    made = read(put_lines(tmp_path, [conversation(turns)]))
    assert made.prefixes is not None
    ends = [made.prefixes.ends[made.prefixes.rows == row].tolist() for row in range(3)]
    assert ends == [[64], [64], [64, 128]]


def test_files_folders_and_lists(tmp_path: Path) -> None:
    one = conversation([request(0.0, 640), request(9.0, 1280)])
    lines = put_lines(tmp_path, [one, one])
    spread = tmp_path / "spread.json"
    spread.write_text(json.dumps(one, indent=1))
    several = tmp_path / "list.json"
    several.write_text(json.dumps([one, one]))
    packed = tmp_path / "agents.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    assert [len(read(each)) for each in (lines, spread, several, packed)] == [4, 2, 4, 4]
    assert len(read(tmp_path)) == 14 and read(tmp_path).source["format"] == "weka"
    assert len(read(tmp_path, limit=3)) == 6 and len(read_lengths(lines).prompt) == 4


MISTAKES: dict[str, tuple[Any, str]] = {
    "a negative prompt": ({"in": -1}, "request 0: in is -1; it must be a whole number of at least 1"),
    "no prompt": ({"in": 0}, "in is 0"),
    "a negative time": ({"t": -1.0}, "t is -1.0; it must be at least 0"),
    "too many ids": ({"hash_ids": [1, 2, 3, 4]}, "hash_ids has 4 ids; a prompt of 100 tokens has 2 blocks"),
    "a text for a number": ({"out": "many"}, "is no conversation (Expected `int`, got `str` - at `$.requests[0].out`)"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(tmp_path: Path, case: str) -> None:
    changed, line = MISTAKES[case]
    good = conversation([request(0.0, 640)])
    path = put_lines(tmp_path, [good, conversation([request(0.0, 100) | changed])])
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line 2") and line in str(caught.value)
    made = read(path, skip_bad=True)
    assert made.source["skipped"] == 1 and len(made) == 1


def test_whole_mistakes(tmp_path: Path) -> None:
    path = put_lines(tmp_path, [conversation([])])
    with pytest.raises(TraceError, match=r"line 1: requests is empty"):
        read(path, format="weka")
    with pytest.raises(TraceError, match="no usable conversation"):
        read(path, format="weka", skip_bad=True)
    with pytest.raises(TraceError, match="no columns to name"):
        read(put_lines(tmp_path, [conversation([request(0.0, 9)])]), columns={"arrival_s": "t"})
    with pytest.raises(TraceError, match="each conversation has a block_size of its own"):
        read(put_lines(tmp_path, [conversation([request(0.0, 9)])]), block_tokens=16)
    with pytest.raises(TraceError, match="hash_id_scope is 'mine'; it must be local or global"):
        read(put_lines(tmp_path, [conversation([request(0.0, 9)], "mine")]))


def test_the_real_corpus(data_dir: Path) -> None:
    """What was counted over all of it: nine of ten blocks and more lie in a prefix seen before."""
    folder = data_dir / "agentic_weka"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    made = read(folder / "part_3.jsonl.zst")
    assert made.source["subagents"] == 13 and made.source["conversations"] == 101
    assert made.source["flattened"] == 33  # the same rows as in AIPerf 0.13
    assert made.reachable_hit_rate(64) == pytest.approx(0.963, abs=0.01)
    assert 90_000 < np.median(made.prompt) < 120_000 and 180 < np.median(made.output) < 250
