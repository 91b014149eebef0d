"""The body of an error that the wire answers itself, in the shape that OpenAI's clients read."""

from __future__ import annotations

import json


def openai(status: int, reason: str) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`, with vLLM's habit of the status as code."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return json.dumps({"error": {"message": reason, "type": kind, "param": None, "code": status}}).encode()
