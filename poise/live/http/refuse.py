"""Refusals by the HTTP layer itself, and the body of an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from poise.live.http.header import Headers


class Refusal(NamedTuple):
    """Why a client's request is refused: a status, a word to count it by, and a sentence for the client.

    headers: of the answer.  body: the whole JSON, where it has more than the sentence.
    """

    status: int
    cause: str
    reason: str
    headers: Headers = ()
    body: bytes = b""


Gate = Callable[[Mapping[bytes, bytes]], Refusal | None]
"""From the first value of each header, by its lower-case name, to the reason for refusing the request unread."""


def error_body(code: int | str | None, kind: str, message: str, param: str | None = None) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`, as OpenAI's clients read it; vLLM's code is the status."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def openai(status: int, reason: str) -> bytes:
    """The body of an error with no more than a status."""
    return error_body(status, "server_error" if status >= 500 else "invalid_request_error", reason)
