"""Errors in the shape that OpenAI's clients read."""

from __future__ import annotations

import msgspec


def error_body(status: int, kind: str, message: str, param: str | None = None) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`, the code being the status, as vLLM has it."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": status}})
