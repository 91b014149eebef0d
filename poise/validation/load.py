"""Parses the load that a source's words describe: static batches, concurrency, a rate, a full queue or a scenario."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["static", "closed", "rate", "queued", "offline", "server", "interactive", "unknown"]

SPREAD = 0.8
"""The shortest length of a benchmark that draws lengths uniformly, as a share of the nominal one
(InferenceX, `RANDOM_RANGE_RATIO`)."""

WAVES = 10
"""Requests of a closed load for each of its clients (InferenceX: `num_prompts = max_concurrency × 10`)."""

RATE_REQUESTS = 1000
"""Requests of a load by rate whose number or duration is not stated."""


@dataclass(frozen=True, slots=True)
class Load:
    """How requests arrive.

    clients: sequences of a static batch, or requests at once of a closed load.  rates: requests per second of stages
    that follow one another, of `seconds` each; of a scenario, the one that was set.  requests: how many, 0 where it is
    not stated.
    spread: lengths are uniform between this share of the nominal ones and these (1: all are equal).
    staged: each stage has exactly as many requests as its rate says, at random instants.
    system: tokens at the begin of each prompt that those of its group share, of which there are `groups` (1: all).
    prompts: different prompts of a group; all are sent in turn, again and again (0: each is sent once).
    """

    kind: Kind
    clients: int = 0
    rates: tuple[float, ...] = ()
    seconds: float = 0.0
    requests: int = 0
    spread: float = 1.0
    staged: bool = False
    system: int = 0
    groups: int = 1
    prompts: int = 0


_BATCH = re.compile(r"\bbatch(?:[ _]size)?\s*=?\s*(\d+)", re.IGNORECASE)
_CLIENTS = re.compile(
    r"\b(?:max[ _-]?)?(?:concurrency|concurrent|users|clients)\s*[=:~]?\s*(\d+)|^(\d+) concurrent", re.IGNORECASE
)
_RATE = re.compile(
    r"(?:\b(?:qps|rate|rps)\s*[=:~]\s*|~\s*)?(\d+(?:\.\d+)?)\s*(?:req(?:uests)?/s|rps|qps)?", re.IGNORECASE
)
_RATED = re.compile(r"\b(qps|rps|rate|req(uests)?/s|poisson)\b", re.IGNORECASE)
_INFINITE = re.compile(r"\binf(inite|inity)?\b|\ball (requests )?queued", re.IGNORECASE)
_SECONDS = re.compile(r"\bfor (\d+(?:\.\d+)?) ?s\b", re.IGNORECASE)
_REQUESTS = re.compile(r"(?<! x )\b(\d[\d,]*) (?:[\w-]+ )?(?:requests|prompts)\b(?! x )", re.IGNORECASE)
_STAGES = re.compile(r"\bstages?\b|\bfor \d+(?:\.\d+)? ?s\b", re.IGNORECASE)
_RECURRING = re.compile(r"(\d+) groups x (\d+) prompts", re.IGNORECASE)
_SYSTEM = re.compile(r"system prompt (\d+)", re.IGNORECASE)
TARGET = re.compile(r"\btarget_qps=(\d+(?:\.\d+)?)")
"""In the notes of MLPerf's runs, the rate that was set."""

_SCENARIOS: dict[str, Kind] = {
    "offline": "offline", "server": "server", "interactive": "interactive", "singlestream": "closed",
}  # fmt: skip


def load_of(words: str, notes: str) -> Load:
    """The load that `words` (the load column) and `notes` describe; `unknown` where they do not describe one."""
    notes, _, _ = notes.partition("; borrowed: ")
    name = words.strip().lower().replace("-", "").replace("_", "")
    if name in _SCENARIOS:
        stated = TARGET.search(notes)
        return Load(_SCENARIOS[name], 1 if name == "singlestream" else 0, (float(stated[1]),) if stated else ())
    if _INFINITE.search(words):
        return Load("queued", requests=_count(_REQUESTS, f"{words}; {notes}"))
    if found := _BATCH.search(words):
        return Load("static", clients=int(found[1]))
    if found := _CLIENTS.search(words):
        spread = 1.0 if "vendor sweep" in notes else SPREAD
        return Load("closed", clients=int(found[1] or found[2]), spread=spread)
    if _RATED.search(words):
        return _rated(words, notes)
    return Load("unknown")


def _rated(words: str, notes: str) -> Load:
    requests, seconds = _count(_REQUESTS, f"{words}; {notes}"), _count(_SECONDS, words)
    text = _REQUESTS.sub("", _SECONDS.sub("", words))
    rates = tuple(float(found) for found in _RATE.findall(text) if float(found) > 0)
    if not rates:
        return Load("unknown")
    recurring = _RECURRING.search(notes)
    groups, prompts = (int(recurring[1]), int(recurring[2])) if recurring else (1, 0)
    return Load(
        "rate", rates=rates, seconds=float(seconds), requests=requests, staged=bool(_STAGES.search(words)),
        system=_count(_SYSTEM, notes), groups=groups, prompts=prompts,
    )  # fmt: skip


def _count(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(float(found[1].replace(",", ""))) if found else 0
