"""A request's life as a story: a line for each thing that happened to it, and where its time went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from poise.core.action import Hold, Route
from poise.core.blame import PARTS
from poise.core.diary import Happening
from poise.core.units import seconds
from poise.report.wording import duration


@dataclass(frozen=True, slots=True)
class Line:
    """What happened: the instant and how long after the arrival it was (seconds), where, and what, in words."""

    at_s: float
    since_s: float
    place: str
    said: str


@dataclass(frozen=True, slots=True)
class Story:
    """lines: the life of a request.  row: what the run's requests table says of it.

    parts, typical: seconds by part of its time, and in the mean over the `finished` requests of the run.
    """

    lines: list[Line]
    row: Mapping[str, Any]
    parts: Mapping[str, float]
    typical: Mapping[str, float]
    finished: int

    @property
    def closing(self) -> str:
        """Where its time went, compared with the mean request, in one line."""
        whole, usual = sum(self.parts.values()), sum(self.typical.values())
        if not self.finished:
            return f"Its {duration(whole)}: {_listed(self.parts, {})}; no request finished to compare it with."
        told = f"Its {duration(whole)} (mean of {self.finished:,} finished requests: {duration(usual)}): "
        told += _listed(self.parts, self.typical)
        most = max(PARTS, key=lambda part: abs(self.parts[part] - self.typical[part]))
        by = self.parts[most] - self.typical[most]
        far = f"; furthest from the mean: {most}, {duration(abs(by))} {'more' if by > 0 else 'less'}" if by else ""
        return f"{told}{far}."

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        lines = [{"at_s": e.at_s, "since_s": e.since_s, "place": e.place, "said": e.said} for e in self.lines]
        return {
            "request": dict(self.row), "lines": lines, "closing": self.closing,
            "parts": dict(self.parts), "typical": dict(self.typical), "finished": self.finished,
        }  # fmt: skip


def show_lines(story: Story, title: str, file: TextIO | None = None) -> None:
    """Print a title, the lines as columns (instant, since the arrival, place, what happened) and the closing line."""
    out = file or sys.stdout
    rows = [(f"{each.at_s:,.6f} s", f"+{duration(each.since_s)}", each.place, each.said) for each in story.lines]
    at, since, place = (max(len(row[column]) for row in rows) for column in range(3))
    out.write(f"{title}\n")
    for row in rows:
        out.write(f"{row[0]:>{at}}  {row[1]:>{since}}  {row[2]:<{place}}  {row[3]}\n")
    out.write(f"{story.closing}\n")


def _listed(parts: Mapping[str, float], typical: Mapping[str, float]) -> str:
    """Parts that are not nothing, the largest first, each with its mean in brackets."""
    order = sorted((part for part in PARTS if parts[part]), key=lambda part: -parts[part])
    means = {part: f" ({duration(typical[part])})" for part in typical}
    return ", ".join(f"{part} {duration(parts[part])}{means.get(part, '')}" for part in order) or "no time at all"


_UNSETTLED = ("arrived", "came_back", "lost")
"""After these the gateway decides at once, if it can."""


def story_lines(happenings: Sequence[Happening], row: Mapping[str, Any], ended_s: float) -> Iterator[Line]:
    """The lines of a request that arrived; `row` is that of `requests_frame`, `ended_s` the end of the run."""
    teller = Teller(row)
    arrived = row["arrival_s"]
    last = -1
    for number, happening in enumerate(happenings):
        said = teller.tell(happening)
        at, last = seconds(happening.at), happening.replica if happening.replica >= 0 else last
        if said:
            yield Line(at, at - arrived, _place(happening.replica), said)
        if happening.what in _UNSETTLED and all(each.at > happening.at for each in happenings[number + 1 :][:1]):
            yield Line(at, at - arrived, _place(-1), "waits: no replica can take it, or others are held before it")
    unfinished = row["status"] == "unfinished"
    at = ended_s if unfinished else row["ended_s"]
    gone = row["status"] in ("rejected", "lost", "cancelled")
    yield Line(at, at - arrived, _place(-1 if gone else last), _end(row))


def _place(replica: int) -> str:
    return "gateway" if replica < 0 else f"replica {replica}"


def _end(row: Mapping[str, Any]) -> str:
    status, tokens = row["status"], row["output_tokens"]
    if status == "unfinished":
        return f"the run stops; it has {_count(tokens, 'token')} so far"
    if status == "cancelled":
        return "never starts: a request that it was to follow did not finish"
    if status != "finished":
        return f"ends {status.replace('_', ' ')}" + (f", with {_count(tokens, 'token')}" if tokens else "")
    if row["tpot_s"] is None:
        return f"finished with {_count(tokens, 'token')}"
    rest = row["e2e_s"] - row["ttft_s"]
    return f"finished with {_count(tokens, 'token')}, {duration(rest)} after the first, {duration(row['tpot_s'])} each"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


class Teller:
    """Says what each happening of a request was, in the order in which they come."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._queued_at = self._swapped = 0
        self._first_at = -1
        self._decided: Any = None
        self._say: dict[str, Callable[..., str]] = {
            "arrived": self._arrived, "came_back": self._came_back, "asked": self._asked, "sent": self._sent,
            "refused": self._refused, "turned_down": self._turned_down, "left": self._left, "queued": self._queued,
            "admitted": self._admitted, "computed": self._computed, "first_token": self._first_token,
            "decodes": self._decodes, "pulling": self._pulling, "pulled": self._pulled, "preempted": self._preempted,
            "moves": self._moves, "stayed": self._stayed, "stands": self._stands, "moved": self._moved,
            "lost": self._lost, "again": self._again,
        }  # fmt: skip

    def tell(self, happening: Happening) -> str:
        """The line; empty where another one says as much."""
        said = self._say[happening.what](happening, **happening.told)
        if happening.what not in ("asked", "sent"):
            self._decided = None
        return said

    # At the gateway --------------------------------------------------------------------------------------------------

    def _arrived(self, _: Happening, prompt_tokens: int, attempt: int) -> str:
        row = self._row
        told = f"arrives with a prompt of {_count(prompt_tokens, 'token')}"
        if row.get("session", -1) >= 0:
            told += f", turn {row['turn']} of session {row['session']}"
        told += f", of tenant {row['tenant']}" if "tenant" in row else ""
        return told + (f", for {row['model']}" if "model" in row else "")

    def _came_back(self, _: Happening, prompt_tokens: int, attempt: int) -> str:
        return f"its client sends it again, attempt {attempt + 1}"

    def _asked(
        self, _: Happening, router: str, decision: Any, able: list[int], saw: dict[str, list[int]], age: int | None,
        stage: str, gateway: int,
    ) -> str:  # fmt: skip
        again, self._decided = decision == self._decided, decision
        chosen = decision.replica if isinstance(decision, Route) else -1
        if again and chosen < 0:
            return ""
        if chosen >= 0:
            task = " for its output" if stage == "decode" else ""
            told = f"{router} chooses replica {chosen}{task}, of {len(able)} that can take it"
        else:
            told = f"{router} {'holds it' if isinstance(decision, Hold) else 'turns it away'}: {decision.reason}"
        seen = ", ".join(_seen(name, column, able, chosen) for name, column in saw.items())
        aged = f", in reports {duration(seconds(age))} old" if age else ""
        return f"{told}; it sees {seen}{aged}" if seen else told

    def _sent(self, _: Happening, to: int, decode: int, resume: bool) -> str:
        return "" if isinstance(self._decided, Route) else f"goes to replica {to}, the next to try"

    def _refused(self, _: Happening, reason: str) -> str:
        return "" if getattr(self._decided, "reason", None) == reason else f"is turned away: {reason}"

    def _turned_down(self, _: Happening, reason: str) -> str:
        return f"the engine refuses it: {reason}"

    def _left(self, _: Happening, reason: str) -> str:
        return "its client leaves: its patience is over" if reason == "timed out" else f"its client leaves: {reason}"

    # At a replica ----------------------------------------------------------------------------------------------------

    def _queued(self, told: Happening, waiting: int, tokens: int, running: int, produced: int, source: int) -> str:
        self._queued_at = told.at
        behind = f"queues behind {_count(waiting, 'request')}" if waiting else "is first in the queue"
        busy = f"; {_count(running, 'request')} running" if running else "; nothing is running"
        left = f", {_count(tokens, 'token')} to compute before its own" if tokens else ""
        kept = f"; its client has {_count(produced, 'token')} of it already" if produced and source < 0 else ""
        return behind + busy + left + kept

    def _admitted(self, told: Happening, computed: int, need: int, ideal: int, produced: int) -> str:
        waited = told.at - self._queued_at
        told_ = f"is admitted after {duration(seconds(waited))}" if waited else "is admitted at once"
        if self._swapped:
            return f"{told_}; the KV of {_count(computed, 'token')} comes back from host memory"
        if computed or ideal:
            told_ += f"; {computed:,} of {_count(need, 'token')} are in the prefix cache"
        return told_ + (f", {ideal:,} in one that never evicts" if ideal > computed else "")

    def _computed(
        self, _: Happening, tokens: int, before: int, took: int, own: int, miss: int, again: int, whole: bool
    ) -> str:
        which = f"tokens {before + 1:,} to {before + tokens:,}" if tokens > 1 else f"token {before + 1:,}"
        told = f"{'computes' if whole else 'was computing'} {which} in {duration(seconds(took))}"
        parts = [(own, "alone"), (miss, "missed in the cache"), (again, "computed before")]
        split = ", ".join(f"{duration(seconds(part))} {word}" for part, word in parts if part)
        return f"{told} ({split})" if split else told

    def _first_token(self, told: Happening) -> str:
        self._first_at = told.replica
        return "its first token"

    def _decodes(self, told: Happening, produced: int) -> str:
        if produced == 1 and self._first_at in (-1, told.replica):
            return ""
        return f"decodes on behind {_count(produced, 'token')}"

    def _preempted(self, told: Happening, tokens: int, swapped: int) -> str:
        self._queued_at, self._swapped = told.at, swapped
        what = "go to host memory" if swapped else "are dropped"
        return f"gives way for want of KV blocks; its {_count(tokens, 'computed token')} {what}"

    # On its way between replicas -------------------------------------------------------------------------------------

    def _pulling(self, _: Happening, tokens: int, source: int) -> str:
        return f"fetches the KV of {_count(tokens, 'token')} from replica {source}"

    def _pulled(self, _: Happening, waited: int, took: int) -> str:
        told = f"has it after {duration(seconds(waited + took))}"
        return f"{told}, {duration(seconds(waited))} of them waiting for a link" if waited else told

    def _moves(self, _: Happening, to: int) -> str:
        return f"is to move to replica {to}"

    def _stayed(self, _: Happening, to: int, reason: str) -> str:
        return f"stays: {reason}"

    def _stands(self, _: Happening, produced: int) -> str:
        return f"stands still after {_count(produced, 'token')}, until the last of its KV has followed"

    def _moved(self, _: Happening, source: int, stood: int) -> str:
        return f"is over from replica {source}, having stood still for {duration(seconds(stood))}"

    def _lost(self, _: Happening) -> str:
        self._swapped = 0
        return "all that it has here is lost with a replica"

    def _again(self, _: Happening) -> str:
        self._first_at = -1
        return "starts from the beginning; the tokens that its client had are thrown away"


def _seen(name: str, column: Sequence[int], able: Sequence[int], chosen: int) -> str:
    """One column as the router saw it: at the replica that it chose, and between which bounds at all."""
    word, low, high = name.replace("_", " "), min(column), max(column)
    bounds = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    if chosen in able:
        here = column[list(able).index(chosen)]
        return f"{word} {here:,} ({bounds})" if low < high else f"{word} {here:,}"
    return f"{word} {bounds}"
