"""Error messages for clients where an engine does not answer or breaks off: what happened, without its address.

Names, addresses and system errors of engines are for the log, the page and the recording.
"""

from __future__ import annotations

from typing import Final

import msgspec

from poise.live.http.refuse import anthropic, error_body
from poise.live.requests.paths import MESSAGES, RESPONSES

_UNREACHED: Final = "no engine could be reached"
_MESSAGES: Final[dict[str, str]] = {
    "refused": _UNREACHED,
    "dns": _UNREACHED,
    "timeout": "the engine did not answer in time",
    "garbage": "the engine's answer could not be read",
}


def in_words(kind: str) -> str:
    """The client's name for a failure of this kind (as in `Failure`)."""
    return _MESSAGES.get(kind, "the engine broke off before its answer was complete")


def error_event(path: str, status: int, message: str, events: int) -> bytes:
    """The last event of a stream that breaks off, in the error format of its path.

    events: of the stream so far; /v1/responses numbers them.  An event that was cut in two is ended first.
    """
    if path == MESSAGES:
        return b"\n\nevent: error\ndata: " + anthropic(status, message) + b"\n\n"
    if path != RESPONSES:
        return b"\n\ndata: " + error_body(status, "server_error", message) + b"\n\n"
    fields = {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": events}
    return b"\n\nevent: error\ndata: " + msgspec.json.encode(fields) + b"\n\n"
