"""The log of a vLLM server with `--enable-log-requests` and `--enable-log-outputs`, as requests.

Lines of interest (vllm/entrypoints/logger.py): "Received request ID: …", in versions up to 2025 with the prompt's
token ids; since then "Request ID details: … prompt_token_ids: […]" at the level DEBUG; and "Generated response ID…: …
output_token_ids: […]", of which newer versions have the ids in a line "Generated response ID… details: …".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from poise.core.errors import TraceError
from poise.workload.readers.format import Format, same_names
from poise.workload.readers.hash_chains import chained
from poise.workload.readers.raw import Column, Raw

BLOCK_TOKENS = 16
"""vLLM's block: tokens that one id stands for."""

VLLM = Format(
    "vllm",
    columns=same_names(
        "arrival_s", "prompt_tokens", "output_tokens", "request_id", "max_tokens", "lora", "hash_ids"
    ),
    block_tokens=BLOCK_TOKENS,
)  # fmt: skip
"""Arrival, lengths and prefix identity of each request that a log has an answer of; stamps are whole seconds."""

HEAD = 1 << 20
"""Bytes at the beginning of a file by which a log is recognised."""

_STAMP = r"(?:INFO|DEBUG) (?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
_RECEIVED = re.compile(_STAMP + r".*?\bReceived request (\S+?): ")
_DETAILS = re.compile(r"\bRequest (\S+) details: ")
_RESPONSE = re.compile(r"\bGenerated response (\S+?)(?: \(streaming (delta|complete)\))?(?: details)?: ")
_PROMPT_IDS = re.compile(r"\bprompt_token_ids: \[([\d, ]*)\]")
_OUTPUT_IDS = re.compile(r"\boutput_token_ids: [\[(]([\d, ]*)[\])]")
_LIMIT = re.compile(r"\bmax_tokens=(\d+)")
_LORA = re.compile(r"\blora_request: LoRARequest\(lora_name='([^']*)'")

_CURE = (
    "start vLLM with VLLM_LOGGING_LEVEL=DEBUG --enable-log-requests --enable-log-outputs and without --max-log-len, or "
    "keep its answers with --enable-per-request-metrics, one JSON a line"
)


@dataclass(slots=True)
class _Request:
    """What the log says of one request."""

    line: int
    arrival_s: float
    limit: int | None
    lora: str | None
    prompt: list[int] | None = None
    output: int | None = None


@dataclass(slots=True)
class _Log:
    """What was read so far. early: prompts of requests that are received in a later line."""

    requests: dict[str, _Request] = field(default_factory=dict)
    early: dict[str, list[int] | None] = field(default_factory=dict)

    def add(self, number: int, line: str) -> None:
        """Take what a line says."""
        if found := _RECEIVED.search(line):
            *stamp, name = found.groups()
            limit, lora = _LIMIT.search(line, found.end()), _LORA.search(line, found.end())
            self.requests[name] = _Request(
                number, _seconds(stamp), int(limit[1]) if limit else None, lora[1] if lora else None,
                _prompt(line) or self.early.pop(name, None),
            )  # fmt: skip
        elif found := _DETAILS.search(line):
            if found[1] in self.requests:
                self.requests[found[1]].prompt = _prompt(line)
            else:
                self.early[found[1]] = _prompt(line)
        elif found := _RESPONSE.search(line):
            self._answer(found[1], found[2] or "", line)

    def _answer(self, name: str, streaming: str, line: str) -> None:
        ids, request = _OUTPUT_IDS.search(line), self.requests.get(name, self.requests.get(f"{name}-0"))
        if ids is None or request is None:
            return
        tokens = ids[1].count(",") + bool(ids[1].strip())
        if streaming == "delta":
            request.output = (request.output or 0) + tokens
        else:
            request.output = max(tokens, request.output or 0)  # behind deltas it repeats them all


def is_log(data: bytes) -> bool:
    """Whether the bytes of a file are a log in which vLLM received a request."""
    return b"Received request " in data[:HEAD] and data.lstrip()[:1] not in (b"{", b"[")


def read_log(path: Path, text: str, limit: int | None) -> Raw:
    """Return the first `limit` requests of a log; those without an answer, or without token ids, are bad rows."""
    log = _Log()
    for number, line in enumerate(text.split("\n"), start=1):
        log.add(number, line)
    found = list(log.requests.items())[:limit]
    if not found:
        raise TraceError(f"{path}: no line says that a request was received; {_CURE}")
    if all(request.prompt is None for _, request in found):
        raise TraceError(f"{path}: the log has no token ids of prompts, so no lengths; {_CURE}")
    if all(request.output is None for _, request in found):
        raise TraceError(f"{path}: the log has no token ids of answers, so no lengths; {_CURE}")
    return _raw(path, found)


def _raw(path: Path, found: list[tuple[str, _Request]]) -> Raw:
    broken = {row: why for row, (_, request) in enumerate(found) if (why := _lacking(request))}
    stamps = np.array([request.arrival_s for _, request in found])
    # A log has no years: a stamp half a year before the one behind it is of the next.
    stamps += np.concatenate([[0], np.cumsum(np.diff(stamps) < -180 * 86400)]) * 366 * 86400
    prompts = [request.prompt or [] for _, request in found]
    columns: dict[str, Column] = {
        "arrival_s": (stamps - stamps.min()).tolist(),
        "prompt_tokens": [len(prompt) for prompt in prompts],
        "output_tokens": [request.output or 0 for _, request in found],
        "request_id": [name for name, _ in found],
        "max_tokens": [max(request.limit or 0, request.output or 0) for _, request in found],
        "hash_ids": [chained(np.array(prompt, np.int64), BLOCK_TOKENS).tolist() for prompt in prompts],
    }
    if any(request.lora for _, request in found):
        columns["lora"] = [request.lora for _, request in found]
    lines = [request.line for _, request in found]
    return Raw(str(path), columns, len(found), lambda row: f"line {lines[row]}", broken)


def _lacking(request: _Request) -> str:
    if request.prompt is None:
        return "the log has no token ids of its prompt"
    return "" if request.output else "the log has no answer to it with token ids"


def _prompt(line: str) -> list[int] | None:
    ids = _PROMPT_IDS.search(line)
    return None if ids is None else [int(each) for each in ids[1].split(",") if each.strip()]


def _seconds(stamp: list[str | None]) -> float:
    """Seconds since the beginning of the year, or since 1970 where the stamp has one."""
    year, month, day, hour, minute, second, part = (each or "" for each in stamp)
    begin = datetime(1970, 1, 1) if year else datetime(2000, 1, 1)
    at = datetime(int(year or 2000), int(month), int(day), int(hour), int(minute), int(second))
    return (at - begin).total_seconds() + (float(f"0.{part}") if part else 0.0)
