"""Workflows are checked whole before anything is drawn, and each error names the task and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from poise.core.errors import ScenarioError
from poise.workload import Task, Text, Workflow

ASK = Task(prompt_tokens=100, output_tokens=10)
WAIT = Task(seconds=2)


def ask(*after: str, **more: Any) -> Task:
    return Task(after=after, prompt_tokens=100, output_tokens=10, **more)


def test_what_is_given_says_what_a_task_is() -> None:
    assert [each.kind for each in (ASK, WAIT, Task(after=["a"]))] == ["request", "tool", "join"]


def test_tasks_come_behind_what_they_wait_for() -> None:
    flow = Workflow({"last": ask("join"), "join": Task(after=["b", "a"]), "b": ask("a"), "a": ASK})
    assert flow.order == ["a", "b", "join", "last"]
    assert flow.ancestors("last") == {"a", "b", "join"} and not flow.ancestors("a")


def test_copies_follow_the_first_of_their_chain() -> None:
    flow = Workflow({"a": Task(prompt_tokens=1, output_tokens=1, count=3), "b": ask(each="a"), "c": ask(each="b")})
    assert flow.copies_of("c") == "a"


MISTAKES: dict[str, dict[str, Task]] = {
    "tasks has no request; give one prompt_tokens": {"a": WAIT},
    "answer waits for 'plam', which is no task; did you mean plan": {"plan": ASK, "answer": ask("plam")},
    "answer begins with 'sistem', which is no text and no task; did you mean system": {
        "answer": ask(begins_with="sistem")
    },
    "a and b wait for one another": {"a": ask("b"), "b": ask("a")},
    "a wait for one another": {"a": ask("a")},
    "a has seconds, as a tool, and tokens": {"a": Task(seconds=1, prompt_tokens=5), "b": ASK},
    "a is a request without output_tokens": {"a": Task(prompt_tokens=5)},
    "t is a tool, which has no prompt": {"a": ASK, "t": Task(after=["a"], seconds=1, begins_with="a"), "b": ask("t")},
    "b has a count and follows each copy of a": {"a": ASK, "b": ask(each="a", count=3)},
    "system is a task and a text": {"system": ASK},
    "b begins with t, a tool": {"a": ASK, "t": Task(after=["a"], seconds=1), "b": ask("t", begins_with="t")},
    "b begins with the answer of a, but does not wait for it": {"a": ASK, "b": ask(begins_with="a")},
    "b begins with a, which has several copies": {
        "a": Task(prompt_tokens=1, output_tokens=1, count=2),
        "b": ask("a", begins_with="a"),
    },
    "t is a tool that no request waits for": {"a": ASK, "t": Task(after=["a"], seconds=1)},
    "b waits for a request and for a tool that begins with the program": {"a": ASK, "t": WAIT, "b": ask("a", "t")},
    "c waits for a request and for a tool": {"a": ASK, "t": WAIT, "j": Task(after=["a", "t"]), "c": ask("j")},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_named_with_its_cure(message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Workflow(MISTAKES[message], {"system": Text(10)})
    assert message in str(caught.value)


def test_a_share_is_above_nothing() -> None:
    with pytest.raises(ScenarioError, match="share is 0"):
        Workflow({"a": ASK}, share=0)
