"""Programs drawn from workflows: their joins and prompts by hand, and against a slow walk over the graph."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import NEVER, SECOND
from poise.workload import Task, Text, Workflow, Workload, all_at_once, closed, poisson, sessions, workflows
from poise.workload.paths import critical_path, programs
from tests.workload.trees import extents, predecessors

SEARCH = Workflow(
    {
        "plan": Task(prompt_tokens=200, output_tokens=30, begins_with="system"),
        "search": Task(after=["plan"], count={"uniform": {"low": 2, "high": 4}}, seconds={"exponential": 2.0}),
        "read": Task(each="search", prompt_tokens=50, output_tokens=10, begins_with="system"),
        "gather": Task(after=["read"]),
        "answer": Task(after=["gather"], prompt_tokens=80, output_tokens=40, begins_with="plan"),
    },
    {"system": Text(1000)},
)


def waits(made: Workload, row: int) -> list[int]:
    assert made.after_offsets is not None and made.after_delay is not None
    return made.after_delay[made.after_offsets[row] : made.after_offsets[row + 1]].tolist()


def by_program(made: Workload) -> dict[int, list[int]]:
    assert made.session is not None
    found: dict[int, list[int]] = defaultdict(list)
    for row, session in enumerate(made.session.tolist()):
        found[session].append(row)
    return found


def test_tools_and_joins_lie_between_requests() -> None:
    flow = Workflow(
        {
            "a": Task(prompt_tokens=10, output_tokens=1),
            "b": Task(prompt_tokens=10, output_tokens=1),
            "slow": Task(after=["a"], seconds=5),
            "quick": Task(after=["b"], seconds=2),
            "again": Task(after=["quick"], seconds=1),
            "join": Task(after=["slow", "again"]),
            "c": Task(after=["join", "b"], prompt_tokens=10, output_tokens=1),
        }
    )
    made = workflows(all_at_once(requests=1), flow).check()
    assert made.stages == ("a", "b", "c") and made.tools == ("request", "slow", "quick", "again")
    assert dict(zip(predecessors(made, 2), waits(made, 2), strict=True)) == {0: 5 * SECOND, 1: 3 * SECOND}
    assert made.tool is not None and made.tool.tolist() == [1, 2, -1]
    assert critical_path(made, np.array([4, 7, 1]) * SECOND) == {0: 11 * SECOND}
    assert critical_path(made, np.array([4, 3, 1]) * SECOND) == {0: 10 * SECOND}


def test_a_tool_may_begin_a_program() -> None:
    flow = Workflow({"look": Task(seconds=3), "ask": Task(after=["look"], prompt_tokens=9, output_tokens=1)})
    made = workflows(poisson(1.0, requests=4, seed=1), flow).check()
    assert (made.arrival - poisson(1.0, requests=4, seed=1).arrival == 3 * SECOND).all()


@given(st.integers(0, 99), st.integers(1, 9))
def test_every_program_is_the_graph(seed: int, requests: int) -> None:
    starts = poisson(0.2, requests=requests, seed=seed)
    made = workflows(starts, SEARCH, seed=seed).check()
    assert made.stage is not None and made.tool is not None
    for session, rows in by_program(made).items():
        stages = [made.stages[made.stage[row]] for row in rows]
        assert stages[0] == "plan" and stages[-1] == "answer" and 2 <= stages.count("read") <= 4
        assert made.arrival[rows[0]] == starts.arrival[session]
        reads = rows[1:-1]
        assert all(predecessors(made, row) == [rows[0]] for row in reads)
        assert sorted(predecessors(made, rows[-1])) == reads and waits(made, rows[-1]) == [0] * len(reads)
        tools = [made.tools[made.tool[row]] if made.tool[row] >= 0 else "" for row in rows]
        assert tools == ["search", *["request"] * len(reads), ""]


def test_prompts_begin_as_they_say() -> None:
    made = workflows(poisson(0.2, requests=3, seed=5), SEARCH, seed=5)
    first = {row: extents(made, row)[0] for row in range(len(made))}
    assert set(first.values()) == {(first[0][0], 1000)}, "the system prompt is one for all"
    for rows in by_program(made).values():
        plan, answer = extents(made, rows[0]), extents(made, rows[-1])
        assert made.prompt[rows[0]] == 1200 and made.prompt[rows[-1]] == 1200 + 30 + 80
        assert made.prefixes is not None and made.prefixes.output is not None
        assert answer[:-1] == [*plan, (int(made.prefixes.output[rows[0]]), 1230)]


def test_a_text_of_ones_own_is_shared_within_a_program_only() -> None:
    ask = Task(prompt_tokens=5, output_tokens=2, begins_with="document", count=3)
    flow = Workflow({"ask": ask}, {"document": Text({"uniform": {"low": 10, "high": 900}}, own=True)})
    made = workflows(all_at_once(requests=4), flow, seed=3).check()
    documents = {session: {extents(made, row)[0] for row in rows} for session, rows in by_program(made).items()}
    assert all(len(found) == 1 for found in documents.values()) and len(set.union(*documents.values())) == 4


def test_the_beginning_of_more_programs_is_fewer() -> None:
    few, more = (workflows(poisson(1.0, requests=n, seed=2), SEARCH, seed=2) for n in (5, 9))
    assert few.session is not None and more.session is not None

    def lengths(made: Workload, session: int) -> list[tuple[int, int, list[int]]]:
        rows = by_program(made)[session]
        return [(int(made.prompt[row]), int(made.output[row]), waits(made, row)) for row in rows]

    assert all(lengths(few, each) == lengths(more, each) for each in range(5))


def test_several_workflows_have_their_shares() -> None:
    one = Task(prompt_tokens=9, output_tokens=1)
    made = workflows(
        poisson(1.0, requests=400, seed=1), {"rare": Workflow({"ask": one}), "often": Workflow({"ask": one}, share=3)}
    )
    assert made.stage is not None and made.stages == ("rare/ask", "often/ask")
    assert 60 <= Counter(made.stage.tolist())[0] <= 140


def test_endless_arrivals_stay_endless() -> None:
    made = workflows(poisson(1.0), SEARCH)
    assert made.endless is not None and len(by_program(made.endless(30.0))) > 9


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (closed(2, requests=9), "need open load"),
        (sessions(poisson(1.0, requests=2)), "need open load"),
        (poisson(1.0, requests=2, max_tokens=9), "max_tokens is given"),
    ],
)
def test_what_cannot_begin_programs_is_refused(starts: Workload, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        workflows(starts, SEARCH)


def test_programs_end_within_the_clock() -> None:
    long = Workflow({"t": Task(seconds=NEVER / SECOND), "a": Task(after=["t"], prompt_tokens=1, output_tokens=1)})
    with pytest.raises(ScenarioError, match="longer than 53 days"):
        workflows(all_at_once(requests=1), long)


def test_programs_are_sessions_or_what_is_joined() -> None:
    made = workflows(poisson(1.0, requests=6, seed=4), SEARCH)
    named = programs(made)
    made.session = None
    joined = programs(made)
    assert named is not None and joined is not None
    assert {tuple(np.flatnonzero(named == each)) for each in set(named)} == {
        tuple(np.flatnonzero(joined == each)) for each in set(joined)
    }
    assert programs(poisson(1.0, requests=2)) is None
