"""The text of each event in a story."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poise.core.action import Hold, Route
from poise.core.records.request_log import LogEntry
from poise.core.units import seconds
from poise.report.wording import duration


def count(number: int, word: str) -> str:
    """A number of things, as in `1 token` and `2,048 tokens`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


class StoryFormatter:
    """Formats each event of a request, in their order."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._queued_at = self._swapped = 0
        self._first_at = -1
        self._decided: Any = None
        self._formats: dict[str, Callable[..., str]] = {
            "arrived": self._arrived, "came_back": self._came_back, "decided": self._routed, "sent": self._sent,
            "refused": self._refused, "turned_down": self._turned_down, "left": self._left, "queued": self._queued,
            "admitted": self._admitted, "computed": self._computed, "first_token": self._first_token,
            "decodes": self._decodes, "pulling": self._pulling, "pulled": self._pulled, "missed": self._missed,
            "preempted": self._preempted,
            "moves": self._moves, "stayed": self._stayed, "stands": self._stands, "moved": self._moved,
            "lost": self._lost, "again": self._again, "copied": self._copied, "goes_on": self._goes_on,
        }  # fmt: skip

    def line(self, happening: LogEntry) -> str:
        """The line of an event; empty where another line already says it."""
        line = self._formats[happening.what](happening, **happening.details)
        if happening.what not in ("decided", "sent"):
            self._decided = None
        return line

    # At the gateway --------------------------------------------------------------------------------------------------

    def _arrived(self, _: LogEntry, prompt_tokens: int, attempt: int) -> str:
        row = self._row
        text = f"arrives with a prompt of {count(prompt_tokens, 'token')}"
        if row.get("session", -1) >= 0:
            text += f", turn {row['turn']} of session {row['session']}"
        text += f", of tenant {row['tenant']}" if "tenant" in row else ""
        return text + (f", for {row['model']}" if "model" in row else "")

    def _came_back(self, _: LogEntry, prompt_tokens: int, attempt: int) -> str:
        return f"its client sends it again, attempt {attempt + 1}"

    def _routed(
        self, _: LogEntry, router: str, decision: Any, able: list[int], saw: dict[str, list[int]], age: int | None,
        stage: str, gateway: int,
    ) -> str:  # fmt: skip
        again, self._decided = decision == self._decided, decision
        chosen = decision.replica if isinstance(decision, Route) else -1
        if again and chosen < 0:
            return ""
        if chosen >= 0:
            task = " for its output" if stage == "decode" else ""
            text = f"{router} chooses replica {chosen}{task}, of {len(able)} that can take it"
        else:
            text = f"{router} {'holds it' if isinstance(decision, Hold) else 'rejects it'}: {decision.reason}"
        seen = ", ".join(_seen(name, column, able, chosen) for name, column in saw.items())
        aged = f", in reports {duration(seconds(age))} old" if age else ""
        return f"{text}; it sees {seen}{aged}" if seen else text

    def _sent(self, _: LogEntry, to: int, decode: int, resume: bool) -> str:
        return "" if isinstance(self._decided, Route) else f"is sent to replica {to}, the next to try"

    def _refused(self, _: LogEntry, reason: str) -> str:
        return "" if getattr(self._decided, "reason", None) == reason else f"is rejected: {reason}"

    def _turned_down(self, _: LogEntry, reason: str) -> str:
        return f"the engine rejects it: {reason}"

    def _left(self, _: LogEntry, reason: str) -> str:
        return "its client leaves: its patience is over" if reason == "timed out" else f"its client leaves: {reason}"

    # At a replica -----------------------------------------------------------------------------------------------------

    def _queued(self, entry: LogEntry, waiting: int, tokens: int, running: int, produced: int, source: int) -> str:
        self._queued_at, self._swapped = entry.at, 0
        behind = f"queues behind {count(waiting, 'request')}" if waiting else "is first in the queue"
        busy = f"; {count(running, 'request')} running" if running else "; nothing is running"
        left = f", {count(tokens, 'token')} to compute before its own" if tokens else ""
        kept = f"; its client has {count(produced, 'token')} of it already" if produced and source < 0 else ""
        return behind + busy + left + kept

    def _admitted(self, entry: LogEntry, computed: int, need: int, ideal: int, produced: int) -> str:
        waited = entry.at - self._queued_at
        text = f"is admitted after {duration(seconds(waited))}" if waited else "is admitted at once"
        if self._swapped:
            return f"{text}; the KV of {count(self._swapped, 'token')} comes back from host memory"
        if computed or ideal:
            text += f"; {computed:,} of {count(need, 'token')} are in the prefix cache"
        return text + (f", {ideal:,} in one that never evicts" if ideal > computed else "")

    def _computed(
        self, _: LogEntry, tokens: int, before: int, took: int, own: int, miss: int, again: int, whole: bool
    ) -> str:
        which = f"tokens {before + 1:,} to {before + tokens:,}" if tokens > 1 else f"token {before + 1:,}"
        text = f"{'computes' if whole else 'was computing'} {which} in {duration(seconds(took))}"
        parts = [(own, "alone"), (miss, "missed in the cache"), (again, "computed before")]
        split = ", ".join(f"{duration(seconds(part))} {word}" for part, word in parts if part)
        return f"{text} ({split})" if split else text

    def _first_token(self, entry: LogEntry) -> str:
        self._first_at = entry.replica
        return "its first token"

    def _decodes(self, entry: LogEntry, produced: int) -> str:
        if produced == 1 and self._first_at in (-1, entry.replica):
            return ""
        return f"decodes on behind {count(produced, 'token')}"

    def _preempted(self, entry: LogEntry, tokens: int, swapped: int) -> str:
        self._queued_at, self._swapped = entry.at, swapped
        what = "go to host memory" if swapped else "may be evicted"
        return f"is preempted for lack of KV blocks; its {count(tokens, 'computed token')} {what}"

    # Between replicas -------------------------------------------------------------------------------------------------

    def _pulling(self, _: LogEntry, tokens: int, source: int) -> str:
        return f"fetches the KV of {count(tokens, 'token')} from replica {source}" if source >= 0 else ""

    def _pulled(self, _: LogEntry, waited: int, took: int) -> str:
        text = f"has it after {duration(seconds(waited + took))}"
        return f"{text}, {duration(seconds(waited))} of them waiting for a link" if waited else text

    def _missed(self, entry: LogEntry, waited: int) -> str:
        self._queued_at = entry.at
        return f"gives up the transfer after {duration(seconds(waited))} and computes the prompt here"

    def _moves(self, _: LogEntry, to: int) -> str:
        return f"is to move to replica {to}"

    def _stayed(self, _: LogEntry, to: int, reason: str) -> str:
        return f"stays: {reason}"

    def _stands(self, _: LogEntry, produced: int) -> str:
        return f"pauses after {count(produced, 'token')} until the rest of its KV has arrived"

    def _moved(self, _: LogEntry, source: int, stood: int) -> str:
        return f"has moved from replica {source} after a pause of {duration(seconds(stood))}"

    def _lost(self, _: LogEntry) -> str:
        return "its work here is lost with the replica"

    def _copied(self, _: LogEntry, to: int) -> str:
        return f"still waits for its first token; a duplicate is sent to replica {to}"

    def _goes_on(self, entry: LogEntry) -> str:
        self._first_at = entry.replica
        return "continues as its duplicate here"

    def _again(self, _: LogEntry) -> str:
        self._first_at = -1
        return "starts from the beginning; the tokens that its client had are discarded"


def _seen(name: str, column: Sequence[int], able: Sequence[int], chosen: int) -> str:
    """One column as the router saw it: its value at the chosen replica, and its range over all able replicas."""
    word, low, high = name.replace("_", " "), min(column), max(column)
    bounds = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    if chosen in able:
        here = column[list(able).index(chosen)]
        return f"{word} {here:,} ({bounds})" if low < high else f"{word} {here:,}"
    return f"{word} {bounds}"
