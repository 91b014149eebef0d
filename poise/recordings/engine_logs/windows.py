"""Turns the lines of a log into rows of a regression: the time of a step, and its content.

Between two lines an engine took n steps and gave G tokens, one for each request that decodes in a step. With R of them
at both ends n = G / R, so a step took R / (G per second). In it were R decodes, the mean of the KV tokens at both ends,
and 1/n of the prompt tokens of the window. That holds where the engine was busy all the time and R about the same;
other windows are left out, each for a reason that is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isclose

from poise.recordings.engine_logs.line import Iteration, Line, Prompts, Setting, Unreadable, Window, line_of

INTERVAL = 40
"""Decode steps between two of SGLang's lines, its default."""

CHANGE = 0.1
"""The share by which the requests of both ends of a window may differ."""

HITS = 0.05
"""The share of prompts found in the prefix cache up to which all count as computed. Some versions of vLLM count found
tokens into the prompt throughput and some do not, so beyond it the computed number is unknown."""

ROUNDED = 0.0101
"""The largest difference between a share given in two digits and the tokens in the same line."""

REASONS = {
    "unreadable": "lines that are broken",
    "contradictory": "lines that contradict themselves",
    "repeated": "lines that are there twice",
    "first": "windows whose beginning is not in the log",
    "idle": "windows in which the engine had nothing to do",
    "stalled": "windows in which requests ran and no token came",
    "unsteady": f"windows in which running requests changed by more than {CHANGE:.0%}",
    "preempted": "windows in which requests were preempted",
    "speculative": "windows of speculative decoding, of which lines do not say the steps",
    "cached": f"windows with prompts of which more than {HITS:.0%} were cached, so that what was computed is unknown",
    "mixed": "windows of prompts and decodes in one batch (mixed chunks), of which lines do not say the steps",
    "aggregated": "windows of several engines added up (log each engine for itself)",
}
"""Why a line or a window is left out, as printed."""


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of a step, and its content: overheads, prompt tokens, their pairs, decodes, KV tokens (None if not
    known)."""

    seconds: float
    steps: float
    prompt_tokens: float
    pairs: float
    running: float
    kv_tokens: float | None


@dataclass(slots=True)
class Log:
    """The data of a log.  rows: of windows.  iterations: of single steps.  left: lines and windows left out, by reason.
    capacity: KV tokens of an engine.  interval: decode steps of a window of SGLang's."""

    rows: list[Row] = field(default_factory=list)
    iterations: list[Row] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    lines: int = 0
    capacity: int | None = None
    interval: int | None = None
    engine: str | None = None


def read_lines(lines: Iterable[str]) -> Log:
    """All rows of a log."""
    reading = _Reading()
    for text in lines:
        reading.take(text)
    return reading.end()


class _Reading:
    """The state of the parser between lines."""

    def __init__(self) -> None:
        self.log = Log()
        self.mixed = False
        self.text = ""
        self.counted = False
        self.steps: dict[str, list[Iteration]] = {}
        self._begin()

    def _begin(self) -> None:
        """Drop the state of the lines before."""
        self.end()
        self.before: dict[str, Window] = {}
        self.prompts: dict[str, list[Prompts]] = {}
        self.preempted: set[str] = set()

    def take(self, text: str) -> None:
        """Take one line."""
        self.log.lines += 1
        line = line_of(text)
        if line is None:
            return
        if isinstance(line, Window) and self._again(text):
            self.log.left["repeated"] += 1
            return
        self._sorted(line)

    def _again(self, text: str) -> bool:
        """Whether it repeats the window before it, with the same text at the same time."""
        before, self.text = self.text, text
        return text == before and re.search(r"\d:\d\d", text) is not None

    def _sorted(self, line: Line) -> None:
        match line:
            case Unreadable():
                self.log.left["unreadable"] += 1
                self._begin()
            case Setting():
                self._add(line)
            case Prompts():
                self.prompts.setdefault(line.engine, []).append(line)
            case Iteration():
                self._iteration(line)
            case Window():
                self.log.engine = "sglang" if line.prompts is None else "vllm"
                self._window(line)

    def _add(self, reading: Setting) -> None:
        match reading.name:
            case "capacity":
                self.log.capacity = reading.value
                self._begin()  # an engine starts
            case "interval" if reading.value:
                self.log.interval = reading.value
            case "mixed":
                self.mixed = True
            case "preempted":
                self.preempted.update(self.before)
            case "speculative" if self.counted:
                self.log.rows.pop()
                self.log.left["speculative"] += 1
                self.counted = False

    def _window(self, window: Window) -> None:
        self.log.windows += 1
        self.counted = False
        prompts = self.prompts.pop(window.engine, [])
        if self._contradictory(window):
            self.log.left["contradictory"] += 1
            self.before.pop(window.engine, None)
            return
        before = self.before.get(window.engine)
        self.before[window.engine] = window
        self._stepped(window.engine, (before, window))
        if before is None:
            self.log.left["first"] += 1
        elif reason := self._reason(before, window, prompts):
            self.log.left[reason] += 1
        else:
            self.log.rows.append(self._row(before, window, prompts))
            self.counted = True
        self.preempted.discard(window.engine)

    def _contradictory(self, window: Window) -> bool:
        """Whether a line has impossible figures."""
        capacity, usage = self.log.capacity, window.usage
        if usage is not None and usage > 1:
            return True
        if window.tokens is None or not capacity:
            return False
        apart = usage is not None and abs(window.tokens / capacity - usage) > ROUNDED
        return window.tokens > capacity or apart

    def _reason(self, before: Window, window: Window, prompts: list[Prompts]) -> str | None:
        """Why a window is left out, the plainest reason first."""
        if window.engines > 1:
            return "aggregated"
        if window.speculative:
            return "speculative"
        if window.preempted or window.engine in self.preempted:
            return "preempted"
        if not before.running or not window.running or any(not each.running for each in prompts):
            return "idle"
        if not window.generated:
            return "stalled"
        if abs(before.running - window.running) > CHANGE * max(before.running, window.running):
            return "unsteady"
        if window.prompts and window.hits > HITS:
            return "cached"
        return "mixed" if prompts and self.mixed else None

    def _row(self, before: Window, window: Window, prompts: list[Prompts]) -> Row:
        running = (before.running + window.running) / 2
        seconds = running / window.generated
        held = [self._held(each) for each in (before, window)]
        kv = None if None in held else sum(each for each in held if each is not None) / 2
        if window.prompts is not None:
            return Row(seconds, 1.0, window.prompts * seconds, 0.0, running, kv)
        steps = self.log.interval or INTERVAL
        tokens, pairs = sum(each.tokens for each in prompts) / steps, sum(each.pairs for each in prompts) / steps
        return Row(seconds, 1 + len(prompts) / steps, tokens, pairs, running, kv)

    def _held(self, window: Window) -> float | None:
        """KV tokens at the end of a window; None where neither they nor the size of the cache are known."""
        if window.tokens is not None:
            return window.tokens
        if window.usage is None or self.log.capacity is None:
            return None
        return window.usage * self.log.capacity

    def _iteration(self, line: Iteration) -> None:
        if line.generated != line.running:
            self.log.left["speculative"] += 1
        elif isclose(line.seconds, 0.0):
            self.log.left["contradictory"] += 1
        else:
            self.steps.setdefault(line.engine, []).append(line)

    def _stepped(self, engine: str, ends: tuple[Window | None, Window | None]) -> None:
        """The iterations between two windows; a request of theirs holds as much as one of both ends in the mean."""
        known = [self._held(each) for each in ends if each is not None and each.running]
        counts = [each.running for each in ends if each is not None and each.running]
        each = None
        if len(known) == 2 and None not in known:
            each = sum((held or 0.0) / count for held, count in zip(known, counts, strict=True)) / 2
        for line in self.steps.pop(engine, ()):
            kv = None if each is None else each * line.running
            self.log.iterations.append(Row(line.seconds, 1.0, line.prompt_tokens, 0.0, line.running, kv))

    def end(self) -> Log:
        """The result, without the last iterations that no window follows."""
        for engine in list(self.steps):
            self._stepped(engine, (None, None))
        return self.log
