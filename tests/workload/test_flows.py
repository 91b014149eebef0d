"""Flows of flows: nesting unfolds to the flat graph, rounds follow one another, and a flow cannot hold itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import Task, Workflow, workflows
from poise.workload.flows import unfolded
from poise.workload.paths import critical_path

CALL = {"prompt_tokens": 10, "output_tokens": 5}
CODER = {
    "write": Task(**CALL),
    "test": Task(["write"], seconds=2.0),
    "mend": Task(["test"], begins_with="write", **CALL),
}


def seconds(tasks: dict[str, Task]) -> int:
    """Of a program whose requests take 1 s each."""
    made = workflows(ps.workload.all_at_once(requests=1), Workflow(tasks))
    return critical_path(made, [SECOND] * len(made))[0] // SECOND  # type: ignore[arg-type]


def test_a_part_is_the_graph_that_it_stands_for() -> None:
    tasks = {
        "plan": Task(**CALL),
        "code": Task(["plan"], flow="coder", begins_with="plan"),
        "end": Task(["code"], **CALL),
    }
    assert unfolded(tasks, {"coder": CODER}) == {
        "plan": Task(**CALL),
        "code/write": Task(["plan"], begins_with="plan", **CALL),
        "code/test": Task(["code/write"], seconds=2.0),
        "code/mend": Task(["code/test"], begins_with="code/write", **CALL),
        "end": Task(["code/mend"], **CALL),
    }
    assert seconds(unfolded(tasks, {"coder": CODER})) == 1 + (1 + 2 + 1) + 1


@given(st.integers(1, 5), st.integers(1, 3))
def test_nesting_is_flattening(rounds: int, inner: int) -> None:
    """Rounds of rounds are as many in a row; a flow around a flow changes names alone."""
    flows = {"coder": CODER, "around": {"it": Task(flow="coder", rounds=inner)}}
    nested = unfolded({"all": Task(flow="around", rounds=rounds)}, flows)
    flat = unfolded({"all": Task(flow="coder", rounds=rounds * inner)}, flows)
    assert [task.kind for task in nested.values()] == [task.kind for task in flat.values()]
    assert seconds(nested) == seconds(flat) == 4 * rounds * inner


def test_a_round_reads_what_the_one_before_wrote() -> None:
    made = unfolded({"code": Task(flow="coder", rounds=3)}, {"coder": CODER})
    for one, two in pairwise(("code 1", "code 2", "code 3")):
        assert made[f"{two}/write"] == Task([f"{one}/mend"], begins_with=f"{one}/mend", **CALL)


def test_parts_side_by_side_are_waited_for_together() -> None:
    both = {"a": Task(**CALL), "b": Task(**CALL)}
    made = unfolded({"draw": Task(flow="both"), "choose": Task(["draw"], **CALL)}, {"both": both})
    assert made["choose"].after == ["draw/a", "draw/b"] and seconds(made) == 2


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"code": Task(flow="codr")}, "code is the flow 'codr', which is not there; did you mean coder"),
        ({"code": Task(flow="ring")}, "the flow ring is part of itself"),
        ({"code": Task(flow="coder", seconds=1.0)}, "code is a flow, whose tasks have their own lengths"),
        ({"code": Task(flow="coder", rounds=400)}, "unfolds to more than 1000 tasks"),
        ({"a": Task(flow="tool"), "b": Task(["a"], begins_with="a", **CALL)}, "does not end in one request"),
    ],
)
def test_what_cannot_be_is_refused(tasks: dict[str, Task], message: str) -> None:
    flows = {"coder": CODER, "ring": {"again": Task(flow="ring")}, "tool": {"run": Task(seconds=1.0)}}
    with pytest.raises(ScenarioError, match=message):
        unfolded(tasks, flows)
