"""Conversations of coding agents in the Weka format: one object a conversation, with its requests and sub-agents.

The format is that of callanjfox/kv-cache-tester, read by AIPerf and AISimulate: a file of JSON, of JSON Lines, or a
folder of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from poise.core.errors import TraceError
from poise.workload.readers.ledger import CURE

NAME = "weka"

BLOCK_TOKENS = 64
"""Tokens that one of `hash_ids` covers, where the conversation does not say."""

SUBAGENT = "subagent"
"""The type of an entry that holds the requests of a sub-agent."""

HEAD = 1 << 16
"""Bytes at the beginning of a file by which the format is recognised."""

MEMBERS = tuple(f"{kind}{packed}" for kind in (".json", ".jsonl", ".ndjson") for packed in ("", ".gz", ".zst"))
"""Endings of the files in a folder that are read."""


class Entry(msgspec.Struct, rename={"prompt": "in", "output": "out"}):
    """A request, or with the type `subagent` a marker with requests of its own.

    t: seconds from the beginning of the conversation.  think_time: seconds since the end of the answer before it.
    api_time: seconds that the recorded server took.  duration_ms: what the whole sub-agent took.
    """

    t: float
    type: str = "n"
    model: str | None = None
    prompt: int = 0
    output: int = 0
    hash_ids: list[int] = []
    stop: str | None = None
    think_time: float | None = None
    api_time: float | None = None
    agent_id: str | None = None
    subagent_type: str | None = None
    duration_ms: float | None = None
    requests: list[Entry] = []

    @property
    def ends(self) -> float | None:
        """When the recorded server had answered; None where the record does not say."""
        return None if self.api_time is None else self.t + self.api_time


class Conversation(msgspec.Struct):
    """One recorded conversation. hash_id_scope: `local` ids mean something only in it, `global` ones in all files."""

    requests: list[Entry]
    id: str | int | None = None
    block_size: int = BLOCK_TOKENS
    hash_id_scope: str = "local"

    @property
    def entries(self) -> Iterator[Entry]:
        """All its requests and markers, those of sub-agents behind their marker."""
        left = [iter(self.requests)]
        while left:
            entry = next(left[-1], None)
            if entry is None:
                left.pop()
                continue
            yield entry
            left.append(iter(entry.requests))


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation and its place, as in `traces.jsonl, line 3`; or what is wrong there."""

    place: str
    conversation: Conversation | None
    wrong: str = ""


def is_weka(path: Path, data: bytes | None) -> bool:
    """Whether a folder has files of conversations, or the bytes of a file begin with one."""
    if data is None:
        return bool(files(path))
    head = data[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    keys = (b'"hash_id_scope"', b'"block_size"', b'"hash_ids"')
    return head[:1] in (b"{", b"[") and b'"requests"' in head and any(key in head for key in keys)


def files(folder: Path) -> list[Path]:
    """The files of a folder that may hold conversations, by name."""
    try:
        return sorted(each for each in folder.iterdir() if each.is_file() and each.name.lower().endswith(MEMBERS))
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from None


def conversations(path: str | os.PathLike[str], data: bytes) -> Iterator[Found]:
    """The conversations of one file, whose bytes are `data`: a JSON object, a list of them, or one a line."""
    decode = msgspec.json.Decoder(Conversation).decode
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"[":
        yield from _listed(path, text)
        return
    lines = data.split(b"\n")
    if len(lines) > 1 and not _is_object(lines[0]):
        yield _one(f"{path}", text)
        return
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Found(f"{path}, line {number}", decode(line))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                yield Found(f"{path}, line {number}", None, f"is no conversation ({error})")


def _is_object(line: bytes) -> bool:
    """Whether a line is a JSON object by itself, and not the beginning of one that is written over several lines."""
    try:
        msgspec.json.decode(line, type=dict)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return line.rstrip().endswith(b"}")
    return True


def _one(place: str, text: bytes) -> Found:
    try:
        return Found(place, msgspec.json.decode(text, type=Conversation))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Found(place, None, f"is no conversation ({error})")


def _listed(path: str | os.PathLike[str], text: bytes) -> Iterator[Found]:
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: broken JSON ({error}); fetch or write the file again") from None
    for number, item in enumerate(items):
        yield _one(f"{path}, conversation {number}", bytes(item))


def mistake(found: Found) -> str:
    """What is wrong with a conversation; empty where it is sound."""
    conversation = found.conversation
    if conversation is None:
        return f"{found.place}: {found.wrong}"
    if not conversation.requests:
        return f"{found.place}: requests is empty; a conversation has at least one"
    if conversation.block_size < 1:
        return f"{found.place}: block_size is {conversation.block_size}; a block has at least one token"
    if conversation.hash_id_scope not in ("local", "global"):
        return f"{found.place}: hash_id_scope is {conversation.hash_id_scope!r}; it must be local or global"
    for number, entry in enumerate(conversation.entries):
        wrong = _wrong(entry, conversation.block_size)
        if wrong:
            return f"{found.place}, request {number}: {wrong}"
    if all(entry.type == SUBAGENT for entry in conversation.entries):
        return f"{found.place}: has no request; give one of type n or s"
    return ""


def _wrong(entry: Entry, block_tokens: int) -> str:
    """Which rule an entry breaks."""
    for name in ("t", "think_time", "api_time", "duration_ms"):
        value = getattr(entry, name)
        if value is not None and not 0 <= value < 10**9:
            return f"{name} is {value}; it must be at least 0"
    if entry.type == SUBAGENT:
        return ""
    for name, tokens, least in (("in", entry.prompt, 1), ("out", entry.output, 0)):
        if not least <= tokens < 2**31:
            return f"{name} is {tokens}; it must be a whole number of at least {least}"
    most = -(-entry.prompt // block_tokens)
    if len(entry.hash_ids) > most:
        return f"hash_ids has {len(entry.hash_ids)} ids; a prompt of {entry.prompt} tokens has {most} blocks"
    return ""


def sound(found: Iterator[Found], skip_bad: bool) -> Iterator[tuple[str, Conversation | None]]:
    """Sound conversations; TraceError for the first other one, or with `skip_bad` its mistake and None."""
    for each in found:
        wrong = mistake(each)
        if wrong and not skip_bad:
            raise TraceError(f"{wrong}; {CURE}")
        yield wrong, None if wrong else each.conversation
