"""Programs: each request of a workload becomes a whole workflow, with its own draw of counts, lengths and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import NEVER, SECOND
from poise.workload.draw import stream
from poise.workload.lengths import LONGEST, Spec, length, tokens
from poise.workload.rows import by_arrival, later
from poise.workload.table import Prefixes, Workload
from poise.workload.workflow import Task, Workflow

START = -1
"""What a task waits for that begins with the program."""

REQUEST = "request"
"""The tool of an answer that calls none, but on which other requests of its program wait."""

Waits = dict[int, int]
"""The earliest start of a task: picoseconds after the end of each request (by row), or after START."""

Extent = tuple[int, int]


def workflows(starts: Workload, given: Workflow | Mapping[str, Workflow], *, seed: int = 0) -> Workload:
    """Return programs that begin when the rows of `starts` arrive, each drawn from a workflow.

    given: a workflow, or several by name, of which each program takes one by their `share`. Tools and joins are no
    rows: they lie between rows as `after_delay`, so a request arrives when the longest of the ways to it is over.
    `stage` is the task (`WORKFLOW/TASK` where there are several workflows), `tool` the longest tool that waits for the
    answer, `REQUEST` where only requests do. Rows of a program are one session. Priority, deadline and timeout are
    those of the start. Prompts have identity where a task has `begins_with`.
    """
    if starts.endless is not None:
        return later(starts, lambda rows: workflows(rows, given, seed=seed))
    _refuse(starts)
    by_name = {"": given} if isinstance(given, Workflow) else dict(given)
    made = _Rows({name: at for at, name in enumerate(_stages(by_name))}, _tools(by_name))
    kinds = _drawn(by_name, len(starts), seed)
    programs = {
        name: _Program(made, workflow, name if len(by_name) > 1 else "", int((kinds == at).sum()), seed)
        for at, (name, workflow) in enumerate(by_name.items())
    }
    names = list(by_name)
    for session, kind in enumerate(kinds.tolist()):
        programs[names[kind]].add(session, int(starts.arrival[session]))
    return _workload(made, starts, len(by_name), seed)


def _refuse(starts: Workload) -> None:
    if starts.concurrency or starts.after_offsets is not None or starts.session is not None or starts.prefixes:
        cure = "build them from poisson, gamma, diurnal, on_off, constant or all_at_once"
        raise ScenarioError(f"workflows need open load without sessions or prefixes as their starts; {cure}")
    if starts.max_tokens is not None:
        raise ScenarioError("max_tokens is given, but the tasks of a workflow have their own lengths; leave it out")


def _drawn(by_name: Mapping[str, Workflow], rows: int, seed: int) -> NDArray[np.int64]:
    """Which workflow each program is."""
    shares = np.cumsum([each.share for each in by_name.values()])
    drawn = stream(seed, "workflow").random(rows) * shares[-1]
    return np.asarray(np.minimum(np.searchsorted(shares, drawn, side="right"), len(shares) - 1), dtype=np.int64)


def _stages(by_name: Mapping[str, Workflow]) -> list[str]:
    several = len(by_name) > 1
    return [
        f"{name}/{task}" if several else task
        for name, workflow in by_name.items()
        for task, what in workflow.tasks.items()
        if what.kind == "request"
    ]


def _tools(by_name: Mapping[str, Workflow]) -> dict[str, int]:
    found = [task for each in by_name.values() for task, what in each.tasks.items() if what.kind == "tool"]
    return {name: at for at, name in enumerate(dict.fromkeys([REQUEST, *found]))}


@dataclass(slots=True)
class _Rows:
    """The rows of all programs so far. stages, tools: numbers by name.  longest: seconds of each row's longest tool."""

    stages: dict[str, int]
    tools: dict[str, int]
    arrival: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    session: list[int] = field(default_factory=list)
    stage: list[int] = field(default_factory=list)
    tool: list[int] = field(default_factory=list)
    longest: list[int] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    extents: list[list[Extent]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    ids: int = 0
    known: bool = False

    def new_id(self) -> int:
        """An extent id that nothing has."""
        self.ids += 1
        return self.ids - 1


class _Program:
    """Makes programs of one workflow, `programs` of them in all. label: the workflow's name before its stages."""

    def __init__(self, made: _Rows, workflow: Workflow, label: str, programs: int, seed: int) -> None:
        self._made = made
        self._flow = workflow
        self._order = workflow.order
        self._label = label
        self._seed = seed
        self._at = 0
        self._counts = {
            name: self._whole(name, "count", 1 if task.count is None else task.count, programs)
            for name, task in workflow.tasks.items()
            if not task.each
        }
        self._used = dict.fromkeys(workflow.tasks, 0)
        self._lengths = {name: self._columns(name, task) for name, task in workflow.tasks.items()}
        self._own = {
            name: self._whole(name, "tokens", each.tokens, programs) for name, each in self._flow.texts.items()
        }
        self._shared = {
            name: (made.new_id(), self._own[name][0])
            for name, each in self._flow.texts.items()
            if not each.own and programs
        }

    def _stream(self, name: str, field: str) -> np.random.Generator:
        return stream(self._seed, " ".join(filter(None, ("workflow", self._label, name, field))))

    def _whole(self, name: str, field: str, spec: Spec, rows: int) -> list[int]:
        label = f"{name}: {field}"
        drawn: list[int] = tokens(length(spec, label), self._stream(name, field), rows, label).tolist()
        return drawn

    def _columns(self, name: str, task: Task) -> dict[str, list[int]]:
        """What is drawn of all copies of a task, in the order of programs."""
        rows = sum(self._counts[self._flow.copies_of(name)])
        if task.seconds is not None:
            drawn = length(task.seconds, f"{name}: seconds").draw(self._stream(name, "seconds"), rows)
            return {"seconds": np.rint(np.minimum(drawn * SECOND, float(NEVER))).astype(np.int64).tolist()}
        fields = {"prompt_tokens": task.prompt_tokens, "output_tokens": task.output_tokens}
        return {field: self._whole(name, field, spec, rows) for field, spec in fields.items() if spec is not None}

    def add(self, session: int, start: int) -> None:
        """One more program, which begins at `start`."""
        texts = {name: [self._text(name)] for name in self._flow.texts}
        ends: dict[str, list[Waits]] = {}
        rows: dict[str, list[int]] = {}
        for name in self._order:
            task = self._flow.tasks[name]
            copies = self._counts[self._flow.copies_of(name)][self._at]
            ends[name], rows[name] = [], []
            for copy in range(copies):
                before = [ends[task.each][copy]] if task.each else []
                waits = _latest([*before, *(wait for each in task.after for wait in ends[each])])
                drawn = self._next(name)
                if task.kind == "request":
                    rows[name].append(self._row(session, start, name, waits, drawn, copy, texts, rows))
                    ends[name].append({rows[name][-1]: 0})
                else:
                    took = drawn.get("seconds", 0)
                    self._call(name, task, waits, took)
                    ends[name].append({row: wait + took for row, wait in waits.items()})
        self._at += 1

    def _next(self, name: str) -> dict[str, int]:
        at = self._used[name]
        self._used[name] += 1
        return {field: column[at] for field, column in self._lengths[name].items()}

    def _text(self, name: str) -> Extent:
        return self._shared[name] if name in self._shared else (self._made.new_id(), self._own[name][self._at])

    def _call(self, name: str, task: Task, waits: Waits, took: int) -> None:
        """The answers right before a tool call it; before a join, they are only waited for."""
        made = self._made
        number, took = (made.tools[name], took) if task.kind == "tool" else (made.tools[REQUEST], -1)
        for row, wait in waits.items():
            if row != START and not wait and took > made.longest[row]:
                made.tool[row], made.longest[row] = number, took

    def _row(
        self, session: int, start: int, name: str, waits: Waits, drawn: dict[str, int], copy: int,
        texts: Mapping[str, list[Extent]], rows: Mapping[str, list[int]],
    ) -> int:  # fmt: skip
        """A request of one copy; returns its row."""
        made, row = self._made, len(self._made.prompt)
        first = self._flow.tasks[name].begins_with
        base = list(texts.get(first, ()))
        if first in rows:
            earlier = rows[first][copy if len(rows[first]) > 1 else 0]
            base = [*made.extents[earlier], (made.answers[earlier], made.prompt[earlier] + made.output[earlier])]
        prompt = (base[-1][1] if base else 0) + drawn["prompt_tokens"]
        if prompt > LONGEST:
            raise ScenarioError(f"{name}: a prompt of {prompt} tokens; {LONGEST} is the most")
        made.known |= bool(base)
        made.extents.append([*base, (made.new_id(), prompt)])
        made.answers.append(made.new_id())
        made.waits.append({before: wait for before, wait in waits.items() if before != START})
        stamps = [(start if before == START else made.arrival[before]) + wait for before, wait in waits.items()]
        made.arrival.append(max(stamps, default=start))
        made.prompt.append(prompt)
        made.output.append(drawn["output_tokens"])
        made.session.append(session)
        made.stage.append(made.stages[f"{self._label}/{name}" if self._label else name])
        made.tool.append(-1)
        made.longest.append(-2)
        self._call(name, self._flow.tasks[name], waits, 0)
        return row


def _latest(waits: list[Waits]) -> Waits:
    """When all of several tasks have ended; without any, when the program begins."""
    if not waits:
        return {START: 0}
    latest: Waits = {}
    for each in waits:
        for row, wait in each.items():
            latest[row] = max(wait, latest.get(row, 0))
    return latest


def _workload(made: _Rows, starts: Workload, several: int, seed: int) -> Workload:
    rows = len(made.prompt)
    session = np.array(made.session, dtype=np.int32)
    if max(made.arrival) >= NEVER:
        raise ScenarioError("the programs last longer than 53 days; shorten their tools")
    many = Workload(
        np.array(made.arrival, dtype=np.int64), np.array(made.prompt, np.int32), np.array(made.output, np.int32),
        after_offsets=np.cumsum([0, *map(len, made.waits)]).astype(np.int64),
        after_ids=np.array([row for each in made.waits for row in each], dtype=np.int64),
        after_delay=np.array([wait for each in made.waits for wait in each.values()], dtype=np.int64),
        delay=np.zeros(rows, dtype=np.int64), session=session,
        stage=np.array(made.stage, dtype=np.int16), stages=tuple(made.stages),
        tool=np.array(made.tool, dtype=np.int16), tools=tuple(made.tools), retry=starts.retry,
    )  # fmt: skip
    if made.known:
        flat = [extent for each in made.extents for extent in each]
        offsets = np.cumsum([0, *map(len, made.extents)]).astype(np.int64)
        ids, ends = (np.array(column) for column in zip(*flat, strict=True))
        many.prefixes = Prefixes(offsets, ids.astype(np.int64), ends.astype(np.int32), np.array(made.answers, np.int64))
    for name in ("priority", "deadline", "timeout", "tenant", "lora"):
        own = getattr(starts, name)
        if own is not None:
            setattr(many, name, own[session])
    facts = {"programs": len(starts), "requests": rows, "of": several, "seed": seed}
    many.source = {**starts.source, "workflows": facts}
    return by_arrival(many)
