"""The story of a request: one line per event, and the attribution of its time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from poise.core.records.blame import PARTS
from poise.core.records.request_log import LogEntry
from poise.core.units import seconds
from poise.report.story_format import StoryFormatter, count
from poise.report.wording import duration


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One event: the instant and how long after the arrival it was (seconds), where, and what, in words."""

    at_s: float
    since_s: float
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """lines: the life of a request.  row: the request's row of the run's requests table.

    parts, typical: seconds by part of its time, and in the mean over the `finished` requests of the run.
    """

    lines: list[StoryLine]
    row: Mapping[str, Any]
    parts: Mapping[str, float]
    typical: Mapping[str, float]
    finished: int

    @property
    def closing(self) -> str:
        """Attribution of its time, compared with the mean request, in one line."""
        whole, usual = sum(self.parts.values()), sum(self.typical.values())
        if not self.finished:
            return f"Its {duration(whole)}: {_listed(self.parts, {})}; no request finished to compare it with."
        text = f"Its {duration(whole)} (mean of {self.finished:,} finished requests: {duration(usual)}): "
        text += _listed(self.parts, self.typical)
        most = max(PARTS, key=lambda part: abs(self.parts[part] - self.typical[part]))
        by = self.parts[most] - self.typical[most]
        far = f"; furthest from the mean: {most}, {duration(abs(by))} {'more' if by > 0 else 'less'}" if by else ""
        return f"{text}{far}."

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        lines = [{"at_s": e.at_s, "since_s": e.since_s, "place": e.place, "text": e.text} for e in self.lines]
        return {
            "request": dict(self.row), "lines": lines, "closing": self.closing,
            "parts": dict(self.parts), "typical": dict(self.typical), "finished": self.finished,
        }  # fmt: skip


def show_lines(story: Story, title: str, file: TextIO | None = None) -> None:
    """Print a title, the lines as columns (instant, since the arrival, place, what happened) and the closing line."""
    out = file or sys.stdout
    rows = [(f"{each.at_s:,.6f} s", f"+{duration(each.since_s)}", each.place, each.text) for each in story.lines]
    at, since, place = (max(len(row[column]) for row in rows) for column in range(3))
    out.write(f"{title}\n")
    for row in rows:
        out.write(f"{row[0]:>{at}}  {row[1]:>{since}}  {row[2]:<{place}}  {row[3]}\n")
    out.write(f"{story.closing}\n")


def _listed(parts: Mapping[str, float], typical: Mapping[str, float]) -> str:
    """Parts that are not zero, the largest first, each with its mean in brackets."""
    order = sorted((part for part in PARTS if parts[part]), key=lambda part: -parts[part])
    means = {part: f" ({duration(typical[part])})" for part in typical}
    return ", ".join(f"{part} {duration(parts[part])}{means.get(part, '')}" for part in order) or "no time at all"


_UNSETTLED = ("arrived", "came_back", "lost")
"""Events after which the gateway decides at once, if it can."""


def story_lines(happenings: Sequence[LogEntry], row: Mapping[str, Any], ended_s: float) -> Iterator[StoryLine]:
    """The lines of a request that arrived; `row` is that of `requests_frame`, `ended_s` the end of the run."""
    formatter = StoryFormatter(row)
    arrived = row["arrival_s"]
    last = -1
    for number, happening in enumerate(happenings):
        line = formatter.line(happening)
        at, last = seconds(happening.at), happening.replica if happening.replica >= 0 else last
        if line:
            yield StoryLine(at, at - arrived, _place(happening.replica), line)
        if happening.what in _UNSETTLED and all(each.at > happening.at for each in happenings[number + 1 :][:1]):
            yield StoryLine(at, at - arrived, _place(-1), "waits: no replica can take it, or others are held before it")
    at = ended_s if row["ended_s"] is None else row["ended_s"]  # unfinished, or lost and held to the end
    gone = row["status"] in ("rejected", "lost", "cancelled")
    yield StoryLine(at, at - arrived, _place(-1 if gone else last), _end(row))


def _place(replica: int) -> str:
    return "gateway" if replica < 0 else f"replica {replica}"


def _end(row: Mapping[str, Any]) -> str:
    status, tokens = row["status"], row["output_tokens"]
    if status == "unfinished":
        return f"the run stops; it has {count(tokens, 'token')} so far"
    if status == "cancelled":
        return "never starts: a request that it was to follow did not finish"
    if status != "finished":
        return f"ends {status.replace('_', ' ')}" + (f", with {count(tokens, 'token')}" if tokens else "")
    if row["tpot_s"] is None:
        return f"finished with {count(tokens, 'token')}"
    rest = row["e2e_s"] - row["ttft_s"]
    return f"finished with {count(tokens, 'token')}, {duration(rest)} after the first, {duration(row['tpot_s'])} each"
