"""What the wire refuses by itself, and how that is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from poise.live.wire.header import Headers


class Refusal(NamedTuple):
    """Why nothing more is read of a client: a status, a word to count it by, and a sentence for the client.

    headers: of the answer.  body: the whole JSON, where it says more than the sentence.
    """

    status: int
    cause: str
    reason: str
    headers: Headers = ()
    body: bytes = b""


Gate = Callable[[Mapping[bytes, bytes]], Refusal | None]
"""From the first value of each header, by its lower-case name, to why the request's body is not worth reading."""


def openai(status: int, reason: str) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`, with vLLM's habit of the status as code."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return json.dumps({"error": {"message": reason, "type": kind, "param": None, "code": status}}).encode()
