"""The JSON of answers of `/v1/messages`, field for field as vLLM 0.32 writes it."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.written import Called

STOPS: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
"""Reasons to stop by OpenAI's; one named tool ends a turn, as in vLLM."""


def message(ask: EngineRequest, name: str, made: int, cached: int | None) -> dict[str, Any]:
    """A whole message."""
    called = ask.called
    if called is None:
        content: dict[str, Any] = {"type": "text", "text": ask.speech.text()}
    else:
        content = block(called, json.loads(ask.speech.text()[called.start : called.end]))
    fields = {"id": name, "type": "message", "role": "assistant", "content": [content], "model": ask.model}
    return fields | {"stop_reason": STOPS[ask.finish], "usage": usage(ask, made, cached)}


def block(called: Called, given: Any) -> dict[str, Any]:
    """The block of a call."""
    return {"type": "tool_use", "id": called.id, "name": called.name, "input": given}


def usage(ask: EngineRequest, made: int, cached: int | None) -> dict[str, Any]:
    """Token counts; those found in the cache and those written to it are counted by themselves."""
    prompt = len(ask.prompt)
    if cached is None:
        return {"input_tokens": prompt, "output_tokens": made}
    created = max(0, ask.whole - cached)
    fields = {"input_tokens": max(0, prompt - cached - created), "output_tokens": made}
    return fields | {"cache_creation_input_tokens": created, "cache_read_input_tokens": cached}


def started(ask: EngineRequest, name: str) -> dict[str, Any]:
    """The first event."""
    fields: dict[str, Any] = {"id": name, "type": "message", "role": "assistant", "content": [], "model": ask.model}
    counts = {"input_tokens": len(ask.prompt), "output_tokens": 0}
    fields |= {"stop_reason": None, "stop_sequence": None, "usage": counts}
    return {"type": "message_start", "message": fields}


def named(data: dict[str, Any]) -> bytes:
    """One event."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), msgspec.json.encode(data))
