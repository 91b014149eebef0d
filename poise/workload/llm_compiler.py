"""LLMCompiler: one task graph of tool calls, run one call after another or as its dependencies allow.

Kim et al., ICML 2024 (arXiv 2312.04511). ReAct thinks before every call and reads its result before the next. A planner
writes all calls at once, one a line; each runs as soon as those are done that it refers to, and a joiner reads all
results. Streamed, a call runs as soon as its own line is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poise.core.errors import ScenarioError
from poise.workload.draw import count, positive
from poise.workload.lengths import Spec
from poise.workload.workflow import Task, Text, Workflow


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: how long it takes, a number or a distribution, and which calls' results it needs."""

    seconds: Spec
    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """Lengths, in tokens.

    system: the beginning of all prompts.  question: the user's.  thought: what ReAct writes before a call.
    line: one call of a plan.  result: what a tool returns.  answer: what the last request writes.
    """

    system: int = 1500
    question: int = 100
    thought: int = 60
    line: int = 30
    result: int = 200
    answer: int = 80

    def __post_init__(self) -> None:
        for name in ("system", "question", "thought", "line", "result", "answer"):
            count(name, getattr(self, name))


def react(calls: Mapping[str, Call], tokens: Tokens | None = None) -> Workflow:
    """Return the program that thinks, calls, reads the result and thinks again; prompts grow by each of them."""
    sizes, tasks = tokens or Tokens(), {}
    before, text, read = "", "system", sizes.question
    for number, (name, call) in enumerate(_ordered(calls).items()):
        think = f"think {number}"
        after = [before] if before else []
        tasks[think] = Task(after, prompt_tokens=read, output_tokens=sizes.thought, begins_with=text)
        tasks[name] = Task([think], seconds=call.seconds)
        before, text, read = name, think, sizes.result
    tasks["answer"] = Task([before], prompt_tokens=read, output_tokens=sizes.answer, begins_with=text)
    return Workflow(tasks, {"system": Text(sizes.system)})


def planned(calls: Mapping[str, Call], tokens: Tokens | None = None, *, streamed: bool = False) -> Workflow:
    """Return the program that plans all calls, runs each when what it needs is done, and joins the results.

    streamed: a call also runs before the plan is whole, once its line is. Each line then is a request that continues
    the line before it, whose KV a prefix cache holds; so it is admitted again, which costs it some steps of the engine.
    """
    sizes, ordered = tokens or Tokens(), _ordered(calls)
    tasks, last, line_of = _plan(list(ordered), sizes, streamed)
    for name, call in ordered.items():
        tasks[name] = Task([line_of[name], *call.after], seconds=call.seconds)
    results = sizes.result * len(ordered)
    tasks["answer"] = Task(
        [last, *ordered], prompt_tokens=results, output_tokens=sizes.answer, begins_with=last
    )  # fmt: skip
    return Workflow(tasks, {"system": Text(sizes.system)})


def _plan(names: Sequence[str], sizes: Tokens, streamed: bool) -> tuple[dict[str, Task], str, dict[str, str]]:
    """The requests that write the plan, the last of them, and for each call the one that writes its line."""
    first = {"prompt_tokens": sizes.question, "begins_with": "system"}
    if not streamed:
        whole = Task(output_tokens=sizes.line * len(names), **first)  # type: ignore[arg-type]
        return {"plan": whole}, "plan", dict.fromkeys(names, "plan")
    tasks: dict[str, Task] = {}
    line_of: dict[str, str] = {}
    before = ""
    for number, name in enumerate(names):
        line_of[name] = f"line {number}"
        going_on = {"after": [before], "prompt_tokens": 1, "begins_with": before} if before else first
        tasks[line_of[name]] = Task(output_tokens=sizes.line, **going_on)  # type: ignore[arg-type]
        before = line_of[name]
    return tasks, before, line_of


def _ordered(calls: Mapping[str, Call]) -> dict[str, Call]:
    """The calls, each behind those it needs; ScenarioError where one needs what is not there."""
    if not calls:
        raise ScenarioError("there are no calls; give at least one, as in {search: Call(2.0)}")
    left = dict(calls)
    done: dict[str, Call] = {}
    while left:
        ready = [name for name, call in left.items() if all(each in done for each in call.after)]
        if not ready:
            name, call = next(iter(left.items()))
            lacking = [each for each in call.after if each not in calls]
            why = f"needs {lacking[0]!r}, which is no call" if lacking else f"and {len(left) - 1} others wait in a ring"
            raise ScenarioError(f"{name} {why}; a call may need only calls that can end before it")
        done |= {name: left.pop(name) for name in ready}
    return done


def speed_up(calls: int, think_s: float, tool_s: float, plan_s: float, join_s: float) -> float:
    """Return how many times as fast the plan is with `calls` independent calls of equal time.

    n · (think + tool) / (plan + tool + join): one answer, which both have, is left out of the one and is the join of
    the other.
    """
    for name, value in (("think_s", think_s), ("tool_s", tool_s), ("plan_s", plan_s), ("join_s", join_s)):
        positive(name, value, zero=True)
    return count("calls", calls) * (think_s + tool_s) / (plan_s + tool_s + join_s)
