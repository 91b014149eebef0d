"""Logs of agents: calls wait for tools, prompts grow, characters become tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from poise.core.errors import TraceError
from poise.core.units import SECOND
from poise.workload import Workload, read
from poise.workload.growth import grown
from tests.workload.files import FORMS, Row, as_jsonl, put, write
from tests.workload.trees import Tokenized, Tokens, extents, joined, predecessors, slow_hits, unique


def event(session: str, kind: str, start: float, end: float, prompt: int | None = None, **more: object) -> Row:
    rest = {"prompt_tokens": prompt, "output_tokens_reported": None, "chars": 40, **more}
    return {"session": session, "seq": 0, "kind": kind, "start_s": start, "end_s": end, **rest}


EVENTS = [
    event("a", "llm", 0, 4, 100, output_tokens_reported=12),
    event("a", "tool", 4, 9),
    event("b", "llm", 0, 1, 50, output_tokens_reported=1),
    event("a", "llm", 9.5, 12, 130, output_tokens_reported=9),
    event("a", "llm", 12, 13, 139, output_tokens_reported=5),
    event("b", "tool", 1, 3),
    event("b", "tool", 1, 4),
    event("b", "llm", 4, 5, 40, output_tokens_reported=8),
    event("a", "llm", 14, 15, 139, output_tokens_reported=7),
]


@pytest.mark.parametrize("form", ["trace.csv", "trace.csv.gz", "trace.jsonl", "trace.parquet"])
def test_calls_follow_one_another(tmp_path: Path, form: str) -> None:
    made = read(write(tmp_path, form, EVENTS)).check()
    assert made.source["format"] == "agent_sessions" and made.session is not None and made.delay is not None
    order = [(0, 100), (1, 50), (1, 40), (0, 130), (0, 139), (0, 139)]
    assert list(zip(made.session.tolist(), made.prompt.tolist(), strict=True)) == order
    assert [predecessors(made, row) for row in range(6)] == [[], [], [1], [0], [3], [4]]
    assert (made.delay / SECOND).tolist() == [0, 0, 3, 5.5, 0, 1]
    # 1 reported of 40 characters is a partial count, 12 and 5 are not.
    assert made.output.tolist() == [12, 10, 8, 9, 5, 7]
    assert made.arrival.tolist()[:2] == [0, 0]


def test_prompts_hold_the_conversation_before(tmp_path: Path) -> None:
    made = read(write(tmp_path, "trace.jsonl", EVENTS))
    # Session b begins anew (50 to 40); a's third prompt is what was said before it, its fourth leaves an output out.
    assert [extents(made, row) for row in range(6)] == [
        [(0, 100)],
        [(2, 50)],
        [(4, 40)],
        [(0, 100), (1, 112), (6, 130)],
        [(0, 100), (1, 112), (6, 130), (7, 139)],
        [(0, 100), (1, 112), (6, 130), (7, 139)],
    ]
    assert made.reachable_tokens(1).tolist() == [0, 0, 0, 111, 138, 138]


@given(joined())
def test_growth_equals_the_slow_cache(workload: Workload) -> None:
    """One predecessor at most; the tokens are put together from the meaning of growth."""
    assert workload.after_offsets is not None and workload.after_ids is not None
    firsts = [predecessors(workload, row)[:1] for row in range(len(workload))]
    workload.after_offsets = np.cumsum([0, *map(len, firsts)]).astype(np.int64)
    workload.after_ids = np.array([each for first in firsts for each in first], dtype=np.int64)
    prompts: list[Tokens] = []
    outputs: list[Tokens] = []
    for row, first in enumerate(firsts):
        size, before = int(workload.prompt[row]), ()
        for earlier in first:
            if size >= len(prompts[earlier]):
                history = prompts[earlier] + outputs[earlier]
                before = history if len(history) <= size else prompts[earlier]
        prompts.append(before + unique(("new", row), size - len(before)))
        outputs.append(unique(("answer", row), int(workload.output[row])))
    workload.prefixes = grown(workload)
    assert workload.check().reachable_tokens(1).tolist() == slow_hits(Tokenized(workload, prompts, outputs), 1)


def test_growth_has_one_parent(tmp_path: Path) -> None:
    text = "id,arrival_s,prompt_tokens,output_tokens,after\na,0,1,1,\nb,0,1,1,\nc,,1,1,a b\n"
    with pytest.raises(TraceError, match="waits for several others"):
        grown(read(put(tmp_path, "t.csv", text)))


def bad(change: dict[str, object], at: int = 3) -> bytes:
    return FORMS["trace.jsonl"]([{**row, **change} if place == at else row for place, row in enumerate(EVENTS)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bad({"kind": "human"}), "line 4: kind is 'human'; it must be llm or tool"),
        (bad({"prompt_tokens": 0}), "line 4: prompt_tokens is 0; it must be a whole number"),
        (bad({"prompt_tokens": None}), "line 4: prompt_tokens is missing"),
        (bad({"start_s": -2}), "line 4: start_s is -2"),
        (bad({"end_s": 9}), "line 4: start_s is 9.5 and end_s is 9; a call must"),
        (bad({"chars": 0, "output_tokens_reported": 0}), r"line 4: output_tokens is 0\.0"),
        (bad({}) + b"{,}\n", "line 10: broken JSON"),
    ],
)
def test_a_bad_event_is_named_and_nothing_waits_for_it(tmp_path: Path, content: bytes, message: str) -> None:
    path = put(tmp_path, "t.jsonl", content)
    with pytest.raises(TraceError, match=message):
        read(path)
    made = read(path, skip_bad=True).check()
    assert made.source["skipped"] == 1 and len(made) >= 5
    assert sum(len(predecessors(made, row)) for row in range(len(made))) == len(made) - 2


def test_no_calls_and_no_columns(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no event is a sound call of the model"):
        read(put(tmp_path, "t.jsonl", as_jsonl([row for row in EVENTS if row["kind"] == "tool"])))
    with pytest.raises(
        TraceError, match="lacks the columns session, kind, start_s, end_s, chars of format agent_sessions"
    ):
        read(put(tmp_path, "t.csv", "arrival_s,prompt_tokens\n0,1\n"), format="agent_sessions")


PREFIXES = [
    {"session": 0, "timestamp": 0, "input_chars": 1295, "output_chars": 785, "hash_ids": [8, 9]},
    {"session": 0, "timestamp": 1500, "input_chars": 1300, "output_chars": 1, "hash_ids": [8, 10]},
    {"session": 1, "timestamp": 2500, "input_chars": 3, "output_chars": 40, "hash_ids": []},
]


def test_characters_become_tokens(tmp_path: Path) -> None:
    made = read(put(tmp_path, "t.jsonl", as_jsonl(PREFIXES))).check()
    assert (made.source["format"], made.source["block_tokens"]) == ("agent_prefixes", 128)
    assert made.prompt.tolist() == [324, 325, 1] and made.output.tolist() == [196, 1, 10]
    assert made.arrival.tolist() == [0, 3 * SECOND // 2, 5 * SECOND // 2]
    assert [extents(made, row) for row in range(3)] == [[(8, 128), (9, 256)], [(8, 128), (10, 256)], []]


def test_a_prompt_without_characters_is_bad(tmp_path: Path) -> None:
    rows = [PREFIXES[0], {**PREFIXES[1], "input_chars": 0, "hash_ids": []}]
    with pytest.raises(TraceError, match="line 2: input_chars is 0; it must be a whole number of at least 1"):
        read(put(tmp_path, "t.jsonl", as_jsonl(rows)))


# README of the data. Hit rates there count 512-character blocks; mean lengths are characters of all rows.
@pytest.mark.parametrize(
    ("name", "requests", "sessions", "chars", "hits", "lost"),
    [("miniswe", 314, 15, 26_200, 0.935, 0), ("magagent", 399, 13, 7_200, 0.816, 23)],
)
def test_published_figures_of_streams(
    data_dir: Path, name: str, requests: int, sessions: int, chars: int, hits: float, lost: int
) -> None:
    made = read(data_dir / f"agent_prefix_traces/{name}.jsonl.gz", skip_bad=True).check()
    assert made.source["skipped"] == lost and len(made) + lost == requests
    assert made.summary()["sessions"] == sessions
    assert 4 * made.prompt.sum() / requests == pytest.approx(chars, rel=0.01)
    assert made.prefixes is not None
    whole = made.prompt // 128 * 128
    assert made.reachable_tokens(128).sum() / whole.sum() == pytest.approx(hits, abs=0.005)


def test_published_figures_of_sessions(data_dir: Path) -> None:
    made = read(data_dir / "agent_swe_sessions/events.csv.gz", skip_bad=True).check()
    summary = made.summary()
    assert summary["sessions"] == summary["independent"] == 105
    assert len(made) + made.source["skipped"] == 4623
    assert summary["prompt_tokens"]["mean"] == pytest.approx(42_000, rel=0.015)
    assert summary["prompt_tokens"]["p99"] == pytest.approx(93_000, rel=0.01)
    assert made.session is not None
    calls = np.bincount(made.session)
    assert calls.mean() == pytest.approx(44, abs=0.5)
    assert np.percentile(calls, 95, method="inverted_cdf") == pytest.approx(103, abs=1)
    # A service that reports it found 95 % of its prompts' tokens cached.
    assert summary["reachable_hit_rate"] == pytest.approx(0.96, abs=0.02)
