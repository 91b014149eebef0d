"""The JSON of answers, field for field as vLLM 0.32 writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.written import Called

DONE: Final = b"data: [DONE]\n\n"
"""The event that ends a stream."""

PREFIXES: Final = {
    "chat": "chatcmpl-", "message": "chatcmpl-", "completion": "cmpl-", "response": "resp_", "transcription": "trsc-",
    "speech": "speech-",
}  # fmt: skip
"""Prefixes of answers' ids."""

FINGERPRINT: Final = "vllm-0.32.0-emulated"
"""In place of the version and build of a real engine."""

encode = msgspec.json.encode


_TRANSFERS: Final = {"kv_transfer_params": None, "ec_transfer_params": None}


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: %b\n\n" % encode(data)


def usage(ask: EngineRequest, made: int, cached: int | None) -> dict[str, Any]:
    """Tokens of prompt and answer. cached: of the prompt, found in the cache; None where it is not reported."""
    fields: dict[str, Any] = _tokens(ask, made) | {"prompt_tokens_details": None, "completion_tokens_details": None}
    if cached is not None:
        created = max(0, ask.whole - cached) if ask.kind == "chat" else None
        details = {"cached_tokens": cached, "created_cache_tokens": created, "multimodal_tokens": None}
        fields["prompt_tokens_details"] = details
    return fields


def _tokens(ask: EngineRequest, made: int) -> dict[str, Any]:
    prompt = len(ask.prompt)
    return {"prompt_tokens": prompt, "total_tokens": prompt + made, "completion_tokens": made}


class Frame:
    """The common parts of all chunks of one stream, made once: a chunk is then a join of three byte strings."""

    __slots__ = ("_common", "ask", "head", "tail")

    def __init__(self, ask: EngineRequest, name: str, created: int) -> None:
        self.ask = ask
        kind = "chat.completion.chunk" if ask.kind == "chat" else "text_completion"
        self._common: dict[str, Any] = {"id": name, "object": kind, "created": created, "model": ask.model}
        before, _, after = self.content("\0", None).partition(b"\\u0000")
        self.head = before
        self.tail = after

    def role(self) -> bytes:
        """The first chunk of a chat."""
        choice = {"index": self.ask.index, "delta": {"role": "assistant", "content": ""}}
        fields = {**self._common, "choices": [choice | {"logprobs": None, "finish_reason": None}]}
        if self.ask.continuous:
            fields["usage"] = self._so_far(0)
        return event(fields | {"prompt_token_ids": None, "prompt_text": None})

    def content(self, text: str, finish: str | None, made: int = 0) -> bytes:
        """A chunk with a piece of text; the last one has a finish reason. made: tokens so far, if they are reported."""
        if self.ask.kind == "chat":
            return self.delta({"content": text}, finish, made)
        choice = {"index": self.ask.index, "text": text, "logprobs": None, "finish_reason": finish}
        return self._chunk(choice | {"stop_reason": None, "prompt_token_ids": None, "token_ids": None}, finish, made)

    def call(self, called: Called) -> bytes:
        """The chunk that names the tool that is called."""
        call = {"id": called.id, "type": "function", "index": 0, "function": {"name": called.name}}
        return self.delta({"content": None, "tool_calls": [call]}, None)

    def arguments(self, text: str) -> bytes:
        """A chunk with a piece of a call's arguments."""
        return self.delta({"content": None, "tool_calls": [{"index": 0, "function": {"arguments": text}}]}, None)

    def delta(self, delta: dict[str, Any], finish: str | None, made: int = 0) -> bytes:
        """A chunk of a chat."""
        choice = {"index": self.ask.index, "delta": delta, "logprobs": None, "finish_reason": finish}
        if finish is not None:
            choice["stop_reason"] = None
        return self._chunk(choice | {"token_ids": None}, finish, made)

    def _chunk(self, choice: dict[str, Any], finish: str | None, made: int) -> bytes:
        fields = {**self._common, "choices": [choice]}
        if made:
            fields["usage"] = self._so_far(made)
        if finish is not None and not self.ask.usage:
            fields["system_fingerprint"] = FINGERPRINT
        return event(fields)

    def total(self, made: int, cached: int | None) -> bytes:
        """The chunk with the token counts."""
        usage = _tokens(self.ask, made)
        if cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
            if self.ask.kind == "chat":
                usage["prompt_tokens_details"]["created_cache_tokens"] = max(0, self.ask.whole - cached)
        return event({**self._common, "choices": [], "usage": usage, "system_fingerprint": FINGERPRINT})

    def _so_far(self, made: int) -> dict[str, Any]:
        usage = _tokens(self.ask, made)
        return usage | {"completion_tokens_details": None} if self.ask.kind == "chat" else usage


def chat(asks: Sequence[EngineRequest], name: str, created: int, cached: int | None) -> bytes:
    """A whole chat completion, of one choice or several."""
    choices = [
        {
            "index": ask.index,
            "message": _message(ask),
            "logprobs": None,
            "finish_reason": ask.finish,
            "stop_reason": None,
        }
        | {"token_ids": None, "routed_experts": None}
        for ask in asks
    ]
    fields = {"id": name, "object": "chat.completion", "created": created, "model": asks[0].model, "choices": choices}
    fields |= {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage(asks[0], _made(asks), cached)}
    fields |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None, **_TRANSFERS, "metrics": None}
    return encode(fields)


def _message(ask: EngineRequest) -> dict[str, Any]:
    """The message of a choice: a text, or the call of a tool."""
    called = ask.called
    content = ask.speech.text() if called is None else "" if called.named else None
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": None}
    message |= {"audio": None, "function_call": None}
    if called is not None:
        function = {"name": called.name, "arguments": ask.speech.text()[called.start : called.end]}
        message["tool_calls"] = [{"id": called.id, "type": "function", "function": function}]
    return message | {"reasoning": None}


def _made(asks: Sequence[EngineRequest]) -> int:
    return sum(ask.speech.tokens for ask in asks)


def completion(asks: Sequence[EngineRequest], name: str, created: int, cached: int | None) -> bytes:
    """A whole completion, of one choice or several."""
    choices = [
        {"index": ask.index, "text": ask.echo + ask.speech.text(), "logprobs": None, "finish_reason": ask.finish}
        | {"stop_reason": None, "token_ids": None, "prompt_logprobs": None, "prompt_token_ids": None}
        | {"routed_experts": None}
        for ask in asks
    ]
    fields = {"id": name, "object": "text_completion", "created": created, "model": asks[0].model, "choices": choices}
    fields |= {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage(asks[0], _made(asks), cached)}
    return encode(fields | {**_TRANSFERS, "metrics": None})


def response(ask: EngineRequest, name: str, created: int, made: int, cached: int | None, status: str) -> dict[str, Any]:
    """The object of `/v1/responses`, at the start (`in_progress`) or at the end."""
    under_way = status == "in_progress"
    reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": name, "created_at": created, "incomplete_details": reason, "instructions": None, "metadata": None,
        "model": ask.model, "object": "response",
        "output": [] if under_way else [message(name, ask.speech.text(), "completed")],
        "parallel_tool_calls": True, "temperature": ask.temperature, "tool_choice": "none", "tools": [],
        "top_p": ask.top_p, "background": False, "max_output_tokens": ask.limit, "max_tool_calls": None,
        "previous_response_id": None, "prompt": None, "reasoning": None, "service_tier": "auto", "status": status,
        "text": None, "top_logprobs": None, "truncation": "disabled",
        "usage": None if under_way else _spent(ask, made, cached or 0),
        "user": None, "presence_penalty": 0.0, "frequency_penalty": 0.0, **_TRANSFERS,
        "input_messages": None, "output_messages": None,
    }  # fmt: skip


def _spent(ask: EngineRequest, made: int, cached: int) -> dict[str, Any]:
    """Tokens of a response."""
    turns: dict[str, Any] = {"input_tokens_per_turn": [], "cached_tokens_per_turn": []}
    made_in_turns: dict[str, Any] = {"output_tokens_per_turn": [], "tool_output_tokens_per_turn": []}
    return {
        "input_tokens": len(ask.prompt),
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0, **turns},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0, "tool_output_tokens": 0, **made_in_turns},
        "total_tokens": len(ask.prompt) + made,
    }


def message(name: str, text: str, status: str) -> dict[str, Any]:
    """The one output item of a response."""
    fields: dict[str, Any] = {"id": f"msg_{name[5:]}", "content": [part(text)] if status == "completed" else []}
    return fields | {"role": "assistant", "status": status, "type": "message", "phase": None}


def part(text: str) -> dict[str, Any]:
    """The one part of a response's message; one that has not begun has an empty list of logprobs, as in vLLM."""
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": None if text else []}


def named(number: int, data: dict[str, Any]) -> bytes:
    """One event of a streamed response; its type is in the data too."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), encode({**data, "sequence_number": number}))


def models(names: tuple[str, ...], context: int, created: int, adapters: Mapping[str, str] | None = None) -> bytes:
    """`/v1/models`: the model by all its names, and the adapters, by name their paths, whose `parent` it is."""
    granted = {"object": "model_permission", "created": created, "allow_create_engine": False, "allow_sampling": True}
    granted |= {"allow_logprobs": True, "allow_search_indices": False, "allow_view": True, "allow_fine_tuning": False}
    granted |= {"organization": "*", "group": None, "is_blocking": False}
    data = [
        {"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": names[0], "parent": None}
        | {"max_model_len": context, "permission": [{"id": f"modelperm-{name}", **granted}]}
        for name in names
    ]
    for name, path in (adapters or {}).items():
        row = {"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": path}
        grants = [{"id": f"modelperm-{name}", **granted}]
        data.append(row | {"parent": names[0], "max_model_len": None, "permission": grants})
    return encode({"object": "list", "data": data})
