"""Refusals by the HTTP layer itself, and the body of an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

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


Gate = Callable[[bytes, Mapping[bytes, bytes]], Refusal | None]
"""From the target and the first value of each header, by its lower-case name, to why the request is refused unread."""

ANTHROPIC: Final = "/v1/messages"
"""How paths of Anthropic's API begin."""

_KINDS: Final = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
}  # fmt: skip
"""Types of Anthropic's errors; the others are `api_error` from 500 on, and `invalid_request_error`."""


def error_body(code: int | str | None, kind: str, message: str, param: str | None = None) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`, as OpenAI's clients read it; vLLM's code is the status."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def anthropic(status: int, message: str) -> bytes:
    """`{"type": "error", "error": {"type", "message"}}`, as Anthropic's clients read it."""
    kind = _KINDS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def styled(
    path: str, status: int, message: str, kind: str, param: str | None = None, code: int | str | None = None
) -> bytes:
    """The body of an error in the format of its path's API."""
    return anthropic(status, message) if path.startswith(ANTHROPIC) else error_body(code, kind, message, param)


def plain(path: str, status: int, reason: str) -> bytes:
    """The body of an error with no more than a status, in the format of its path's API."""
    return anthropic(status, reason) if path.startswith(ANTHROPIC) else openai(status, reason)


def openai(status: int, reason: str) -> bytes:
    """The body of an error with no more than a status."""
    return error_body(status, "server_error" if status >= 500 else "invalid_request_error", reason)
