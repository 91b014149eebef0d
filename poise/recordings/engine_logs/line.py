"""Parses one line of an engine's log, of any known engine and version.

The wordings are those of vLLM's `v1/metrics/loggers.py` (and `engine/metrics.py` before it), of its
`--enable-logging-iteration-details`, and of SGLang's scheduler (`managers/scheduler_metrics_mixin.py` and what followed
it). Fields are found by name, so additional, missing or reordered fields do no harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """A periodic line with the engine's figures since the line before.

    running: requests at its end.  generated: tokens/s.  prompts: prompt tokens/s, where the line has it.
    tokens: KV tokens held at the end.  usage: the share of the cache that they are.  hits: of prompts in the prefix
    cache, a share.  preempted, speculative: whether requests were, whether draft tokens were accepted.
    engines: whose figures are summed in it.
    """

    engine: str
    running: int
    generated: float
    prompts: float | None = None
    tokens: int | None = None
    usage: float | None = None
    hits: float = 0.0
    preempted: bool = False
    speculative: bool = False
    engines: int = 1


@dataclass(frozen=True, slots=True)
class Prompts:
    """A batch of prompts: how many, the tokens computed and those cached, and requests that also decode."""

    engine: str
    requests: int
    tokens: int
    cached: int
    running: int

    @property
    def pairs(self) -> float:
        """Query-key pairs, the prompts of a batch taken as equal."""
        return self.tokens * (self.cached + (self.tokens + self.requests) / 2) / self.requests


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step: tokens of prompts, decoding requests, their tokens, and seconds."""

    engine: str
    prompt_tokens: int
    running: int
    generated: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Any other relevant line: `capacity` (KV tokens), `interval` (decode steps of a window), `mixed`, `preempted`,
    `speculative` (about the window before)."""

    name: str
    value: int = 1


class Unreadable:
    """A line that begins like one of these and does not continue like it."""


UNREADABLE = Unreadable()

Line = Window | Prompts | Iteration | Setting | Unreadable

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VLLM = re.compile(r"(?:Engine (\d+): |(\d+) Engines Aggregated: )?(?=Avg prompt throughput: )")
_SGLANG = re.compile(r"\b(Prefill|Decode) batch(?: \[\d+\])?[.,] ")
_RANK = re.compile(r"\[\d{4}-\d\d-\d\d[ T][\d:.,]+((?: [A-Z]+\d+)*)\]")
_ITERATION = re.compile(r"\bIteration\(\d+\): ")
_STEP = re.compile(
    r"(\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens, "
    r"iteration elapsed time: (\d+(?:\.\d+)?) ms( \(dummy\))?"
)
_CORE = re.compile(r"EngineCore_DP(\d+)")
_BEGINS = re.compile(r"Avg prompt throughput: |\b(?:Prefill|Decode) batch(?: \[\d+\])?[.,] |\bIteration\(\d+\): ")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
_SETTINGS = (
    ("capacity", re.compile(r"GPU KV cache size: ([\d,]+) tokens")),
    ("capacity", re.compile(r"\bmax_total_num_tokens=(\d+)")),
    ("interval", re.compile(r"\bdecode_log_interval=(\d+)")),
    ("mixed", re.compile(r"\benable_mixed_chunk=True()")),
    ("preempted", re.compile(r"#retracted_reqs: (?=[1-9])()|is preempted by PreemptionMode()")),
    ("speculative", re.compile(r"SpecDecoding metrics: ()|Speculative metrics: ()")),
)
_BLOCKS = re.compile(r"# (?:GPU|cuda) blocks: (\d+)")
BLOCK = 16
"""Tokens of a block where a log counts blocks alone, vLLM's default at the time."""


def line_of(text: str) -> Line | None:
    """The parsed line; None for an irrelevant one."""
    text = _COLOUR.sub("", text).rstrip().rstrip(",") if "\x1b" in text else text.rstrip().rstrip(",")
    try:
        if len(_BEGINS.findall(text)) > 1:  # two that ran into one another
            return UNREADABLE
        if "Avg prompt throughput: " in text:
            return _vllm(text)
        if " batch" in text and (found := _SGLANG.search(text)):
            return _sglang(text, found)
        if "Iteration(" in text and (found := _ITERATION.search(text)):
            return _iteration(text, found.end())
    except (KeyError, ValueError):
        return UNREADABLE
    return _setting(text)


def _vllm(text: str) -> Line:
    found = _VLLM.search(text)
    assert found is not None
    fields = _fields(text[found.end() :])
    return Window(
        str(int(found[1] or 0)),
        int(_number(fields["Running"], " reqs")),
        _number(fields["Avg generation throughput"], " tokens/s"),
        _number(fields["Avg prompt throughput"], " tokens/s"),
        usage=_number(fields["GPU KV cache usage"], "%") / 100 if "GPU KV cache usage" in fields else None,
        hits=_number(fields["Prefix cache hit rate"], "%") / 100 if "Prefix cache hit rate" in fields else 0.0,
        preempted=any(not fields.get(name, "0").startswith("0") for name in ("Preemptions", "Swapped")),
        engines=int(found[2] or 1),
    )


def _sglang(text: str, found: re.Match[str]) -> Line:
    fields = _fields(text[found.end() :])
    rank = _RANK.search(text)
    engine = rank[1].strip() if rank else ""
    if found[1] == "Prefill":
        if not (requests := _whole(fields["#new-seq"])):
            raise ValueError("a batch of nothing")
        return Prompts(
            engine,
            requests,
            _whole(fields["#new-token"]),
            _whole(fields["#cached-token"]),
            _whole(fields["#running-req"]),
        )
    tokens = fields.get("#token", fields.get("#full token"))
    # Of several pools the share is not that of the tokens given.
    usage = fields.get("token usage")
    return Window(
        engine,
        _whole(fields["#running-req"]),
        _number(fields["gen throughput (token/s)"]),
        tokens=None if tokens is None else _whole(tokens),
        usage=None if usage is None else _number(usage),
        speculative="accept len" in fields and _number(fields["accept len"]) != 1,
    )


def _iteration(text: str, begin: int) -> Line | None:
    found = _STEP.match(text, begin)
    if not found:
        return UNREADABLE
    core = _CORE.search(text)
    counts = [int(each) for each in found.groups()[:4]]
    if found[6] or not any(counts):
        return None
    return Iteration(str(int(core[1] if core else 0)), counts[1], counts[2], counts[3], float(found[5]) / 1000)


def _setting(text: str) -> Setting | None:
    for name, pattern in _SETTINGS:
        if found := pattern.search(text):
            return Setting(name, int((found[1] or "1").replace(",", "") or 1))
    if found := _BLOCKS.search(text):
        return Setting("capacity", int(found[1]) * BLOCK)
    return None


def _fields(text: str) -> dict[str, str]:
    return dict(part.split(": ", 1) for part in text.split(", ") if ": " in part)


def _number(text: str, unit: str = "") -> float:
    """A number with its unit and nothing else but a full stop, or ValueError."""
    found = _NUMBER.match(text)
    if not found or text[found.end() :].removesuffix(".") != unit:
        raise ValueError(text)
    return float(found[1])


def _whole(text: str) -> int:
    return int(text)
