"""Three ways of running the same calls: their longest ways by hand, and the closed form."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import Workflow, all_at_once, workflows
from poise.workload.llm_compiler import Call, Tokens, planned, react, speed_up
from poise.workload.paths import critical_path

INDEPENDENT = {name: Call(3.0) for name in "abcd"}
CHAIN = {"a": Call(3.0), "b": Call(3.0, ["a"]), "c": Call(3.0, ["b"])}


def _time(flow: Workflow, took: float = 1.0) -> float:
    """Seconds of the longest way where each request takes `took`."""
    made = workflows(all_at_once(requests=1), flow).check()
    return critical_path(made, np.full(len(made), round(took * SECOND)))[0] / SECOND


def test_one_after_another_or_as_they_depend() -> None:
    assert _time(react(INDEPENDENT)) == 4 * (1 + 3) + 1
    assert _time(planned(INDEPENDENT)) == 1 + 3 + 1
    assert _time(planned(INDEPENDENT, streamed=True)) == 4 + 3 + 1, "the last line is on the longest way"
    assert _time(react(CHAIN)) == 3 * (1 + 3) + 1
    assert _time(planned(CHAIN)) == 1 + 9 + 1
    assert _time(planned(CHAIN, streamed=True)) == 1 + 9 + 1


def test_prompts_grow_by_outputs_and_observations() -> None:
    sizes = Tokens(system=1000, question=100, thought=10, line=7, result=50, answer=5)
    slow = workflows(all_at_once(requests=1), react(CHAIN, sizes))
    assert slow.prompt.tolist() == [1100, 1160, 1220, 1280] and slow.output.tolist() == [10, 10, 10, 5]
    quick = workflows(all_at_once(requests=1), planned(CHAIN, sizes))
    assert quick.prompt.tolist() == [1100, 1100 + 21 + 150] and quick.output.tolist() == [21, 5]
    lines = workflows(all_at_once(requests=1), planned(CHAIN, sizes, streamed=True))
    assert lines.prompt.tolist() == [1100, 1108, 1116, 1116 + 7 + 150] and lines.output.tolist() == [7, 7, 7, 5]


def test_the_closed_form_is_the_longest_way() -> None:
    answer = 1.0
    assert speed_up(4, 1.0, 3.0, 1.0, 1.0) == (_time(react(INDEPENDENT)) - answer) / _time(planned(INDEPENDENT))


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ({}, "there are no calls"),
        ({"a": Call(1.0, ["b"])}, "a needs 'b', which is no call"),
        ({"a": Call(1.0, ["b"]), "b": Call(1.0, ["a"])}, "a and 1 others wait in a ring"),
    ],
)
def test_calls_that_cannot_run_are_refused(calls: dict[str, Call], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        react(calls)


def test_lengths_are_at_least_one_token() -> None:
    with pytest.raises(ScenarioError, match="line is 0"):
        Tokens(line=0)
