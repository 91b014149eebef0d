"""Workflows: task graphs of requests, tools and joins, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from poise.core.errors import ScenarioError
from poise.core.plugin import nearest
from poise.workload.draw import positive
from poise.workload.lengths import Spec

Kind = Literal["request", "tool", "join"]


@dataclass(frozen=True, slots=True)
class Text:
    """What prompts may begin with: `tokens` that all programs share, or with `own` each program's own."""

    tokens: Spec
    own: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One node of a workflow; lengths, times and counts are numbers or distributions.

    after: the tasks it waits for, all copies of each.
    each: a task of which every copy is followed by one copy of this one.
    count: copies that run in parallel (1), unless `each` sets their number.
    prompt_tokens, output_tokens: make it a request.  seconds: makes it a tool.  Neither: a join, which takes no time.
    begins_with: a text, or an earlier request whose prompt and answer the prompt begins with; `prompt_tokens` follow.
    flow, rounds: makes it a part, which is another workflow by name, so many times in a row (`flows.unfolded`).
    """

    after: Sequence[str] = ()
    each: str = ""
    count: Spec | None = None
    prompt_tokens: Spec | None = None
    output_tokens: Spec | None = None
    seconds: Spec | None = None
    begins_with: str = ""
    flow: str = ""
    rounds: int = 1

    @property
    def kind(self) -> Kind:
        """What it is, by what is given of it."""
        if self.seconds is not None:
            return "tool"
        return "join" if self.prompt_tokens is None and self.output_tokens is None else "request"

    @property
    def before(self) -> tuple[str, ...]:
        """All tasks it waits for."""
        return (*self.after, *([self.each] if self.each else []))


@dataclass(frozen=True, slots=True)
class Workflow:
    """Tasks and texts by name; `share` of the programs, among all workflows.

    ScenarioError names the first task that cannot be: an unknown name, a ring, a tool that nothing waits for.
    """

    tasks: Mapping[str, Task]
    texts: Mapping[str, Text] = field(default_factory=dict)
    share: float = 1.0

    def __post_init__(self) -> None:
        positive("share", self.share)
        if not any(task.kind == "request" for task in self.tasks.values()):
            raise ScenarioError("tasks has no request; give one prompt_tokens and output_tokens")
        for name, task in self.tasks.items():
            _one(name, task)
            self._known(name, task)
        self._order()
        for name in self.tasks:
            self._begins(name)
            self._useful(name)
            self._rooted(name)

    @property
    def order(self) -> list[str]:
        """The tasks by name, each behind all that it waits for."""
        return self._order()

    def copies_of(self, name: str) -> str:
        """The task whose `count` sets the number of copies of a task: the first of its chain of `each`."""
        while self.tasks[name].each:
            name = self.tasks[name].each
        return name

    def ancestors(self, name: str) -> set[str]:
        """All tasks that end before one begins."""
        found: set[str] = set()
        left = [*self.tasks[name].before]
        while left:
            if (each := left.pop()) not in found:
                found.add(each)
                left += self.tasks[each].before
        return found

    def _known(self, name: str, task: Task) -> None:
        for each in task.before:
            if each not in self.tasks:
                hint = nearest(each, self.tasks, "known are", 2)
                raise ScenarioError(f"{name} waits for {each!r}, which is no task; {hint}")
        if task.begins_with and task.begins_with not in {*self.tasks, *self.texts}:
            hint = nearest(task.begins_with, [*self.texts, *self.tasks], "known are", 2)
            raise ScenarioError(f"{name} begins with {task.begins_with!r}, which is no text and no task; {hint}")
        if name in self.texts:
            raise ScenarioError(f"{name} is a task and a text; give one of them another name")

    def _order(self) -> list[str]:
        left = {name: set(task.before) for name, task in self.tasks.items()}
        done: list[str] = []
        while left:
            ready = [name for name, before in left.items() if not before & left.keys()]
            if not ready:
                raise ScenarioError(f"{' and '.join(left)} wait for one another; one of them must be able to begin")
            done += ready
            for name in ready:
                del left[name]
        return done

    def _begins(self, name: str) -> None:
        """A prompt can repeat only an answer that is there, of one copy."""
        first = self.tasks[name].begins_with
        if not first or first in self.texts:
            return
        if self.tasks[first].kind != "request":
            raise ScenarioError(f"{name} begins with {first}, a {self.tasks[first].kind}; name a request or a text")
        if first not in self.ancestors(name):
            raise ScenarioError(f"{name} begins with the answer of {first}, but does not wait for it; put it `after`")
        several = self.copies_of(first)
        if self.tasks[several].count is not None and several != self.copies_of(name):
            raise ScenarioError(f"{name} begins with {first}, which has several copies; let it follow `each` of them")

    def _useful(self, name: str) -> None:
        """Refuse tasks after the last answer, because they are not simulated."""
        kind = self.tasks[name].kind
        later = (other for other, task in self.tasks.items() if task.kind == "request")
        if kind != "request" and not any(name in self.ancestors(other) for other in later):
            raise ScenarioError(f"{name} is a {kind} that no request waits for; remove it, or let a request follow")

    def _rooted(self, name: str) -> None:
        """A request waits for requests or for the program's begin, for a workload's row has one kind of arrival."""
        if self.tasks[name].kind != "request":
            return
        begins = {self._begun(each) for each in self.tasks[name].before}
        if len(begins) > 1 or begins == {"both"}:
            raise ScenarioError(
                f"{name} waits for a request and for a tool that begins with the program; let the tool follow a request"
            )

    def _begun(self, name: str) -> str:
        """Whether a task counts from the end of requests, from the program's begin, or from both."""
        task = self.tasks[name]
        if task.kind == "request":
            return "request"
        found = {self._begun(each) for each in task.before} or {"program"}
        return found.pop() if len(found) == 1 else "both"


def _one(name: str, task: Task) -> None:
    """Check a task by itself."""
    if task.flow:
        raise ScenarioError(f"{name} is the flow {task.flow}; unfold it first, by poise.workload.flows.unfolded")
    if task.kind == "tool" and (task.prompt_tokens is not None or task.output_tokens is not None):
        raise ScenarioError(f"{name} has seconds, as a tool, and tokens, as a request; give one or the other")
    if task.kind == "request" and (task.prompt_tokens is None or task.output_tokens is None):
        lacking = "prompt_tokens" if task.prompt_tokens is None else "output_tokens"
        raise ScenarioError(f"{name} is a request without {lacking}; give a number or a distribution")
    if task.kind != "request" and task.begins_with:
        raise ScenarioError(f"{name} is a {task.kind}, which has no prompt; remove begins_with")
    if task.each and task.count is not None:
        raise ScenarioError(f"{name} has a count and follows each copy of {task.each}; give one or the other")
