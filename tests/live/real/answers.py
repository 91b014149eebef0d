"""A chat, and the events of a streamed answer."""

from __future__ import annotations

import json
from typing import Any

from poise.live.traffic import words
from tests.live.real.process import NAME, ask

CHAT: dict[str, Any] = {
    "model": NAME, "messages": [{"role": "user", "content": words(1, 60)}], "max_tokens": 48, "temperature": 0,
    "seed": 7, "ignore_eos": True,
}  # fmt: skip


def chunks(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream, without its end, and without what differs from request to request."""
    status, answer = ask(url, "POST", "/v1/chat/completions", {**body, "stream": True})
    assert status == 200
    events = [line.removeprefix("data: ") for line in answer.decode().split("\n\n") if line]
    assert events.pop() == "[DONE]"
    parsed: list[dict[str, Any]] = [json.loads(each) for each in events]
    assert len({each.pop("id") for each in parsed}) == 1
    # vLLM stamps a stream once, llama.cpp each event of it: the stamps may cross a second, and never go back.
    stamps = [each.pop("created") for each in parsed]
    assert stamps == sorted(stamps)
    return parsed


def text(given: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for each in given for choice in each["choices"])
