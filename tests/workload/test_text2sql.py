"""Queries of text-to-SQL agents: which steps wait for which."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import TraceError
from poise.workload import poisson, read, recorded_sessions
from tests.workload.files import put
from tests.workload.trees import predecessors

QUERY = (
    '{"query": "q1", "steps": [["Information Retriever", 301, 26], ["extract_keywords", 649, 21], '
    '["Information Retriever", 304, 5], ["Information Retriever", 308, 5], ["generate_candidate_a", 900, 60], '
    '["generate_candidate_b", 800, 40], ["revise", 500, 7], ["revise", 500, 8], ["revise", 500, 9], '
    '["unit_tester", 271, 6], ["evaluate", 90, 22], ["evaluate", 91, 22]]}\n'
)


def test_candidates_revisions_and_evaluations_run_side_by_side(tmp_path: Path) -> None:
    made = read(put(tmp_path, "sql.jsonl", QUERY))
    assert made.source["format"] == "agent_steps" and made.stage is not None
    stages = [made.stages[each] for each in made.stage]
    before = [predecessors(made, row) for row in range(len(made))]
    assert before == [[], [0], [1], [2], [3], [3], [4, 5], [4, 5], [4, 5], [6, 7, 8], [9], [9]]
    assert stages[9] == "unit_tester" and made.prompt.tolist()[:2] == [301, 649]


def test_queries_are_programs_of_their_own(tmp_path: Path) -> None:
    two = QUERY + QUERY.replace("q1", "q2").replace("301", "302")
    recorded = read(put(tmp_path, "sql.jsonl", two))
    made = recorded_sessions(poisson(0.1, requests=5, seed=1), recorded).check()
    assert made.session is not None and len(set(made.session.tolist())) == 5 and len(made) == 60
    assert made.stages == recorded.stages and made.stage is not None and len(made.stage) == 60


BROKEN = {
    '{"query": 1, "steps": 5}': "line 2: steps is 5; it must be a list of",
    '{"query": 1, "steps": []}': "line 2: steps is []",
    '{"query": 1, "steps": [["a", 3]]}': "line 2: a step is ['a', 3]; it must be",
    '{"query": 1, "steps": [["a", 3, 0]]}': "line 2: output_tokens is 0",
}


@pytest.mark.parametrize("line", BROKEN)
def test_a_bad_query_is_named_and_can_be_passed_over(tmp_path: Path, line: str) -> None:
    path = put(tmp_path, "sql.jsonl", QUERY + line + "\n")
    with pytest.raises(TraceError) as caught:
        read(path)
    assert BROKEN[line] in str(caught.value)
    assert len(read(path, skip_bad=True)) == 12


def test_a_file_without_sound_queries_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no query has steps"):
        read(put(tmp_path, "sql.jsonl", '{"query": 1, "steps": 5}\n'))
