"""The JSON of answers, field for field as vLLM 0.32 writes it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from poise.live.engine.ask import Ask

DONE: Final = b"data: [DONE]\n\n"
"""The event that ends a stream."""

PREFIXES: Final = {"chat": "chatcmpl-", "completion": "cmpl-", "response": "resp_", "embedding": "embd-"}
"""What ids of answers begin with."""

encode = msgspec.json.encode


def event(said: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: %b\n\n" % encode(said)


def usage(ask: Ask, made: int, cached: int | None) -> dict[str, Any]:
    """Tokens of prompt and answer. cached: of the prompt, found in the cache; None where this is not to be told."""
    prompt = len(ask.prompt)
    details = None if cached is None else {"cached_tokens": cached}
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + made,
        "completion_tokens": made,
        "prompt_tokens_details": details,
    }


def _brief(told: dict[str, Any]) -> dict[str, Any]:
    """Without what is not there, as in streams."""
    return {name: value for name, value in told.items() if value is not None}


class Frame:
    """What all chunks of one stream share, made once: a chunk is then a join of three byte strings."""

    __slots__ = ("_common", "ask", "head", "tail")

    def __init__(self, ask: Ask, name: str, created: int) -> None:
        self.ask = ask
        kind = "chat.completion.chunk" if ask.kind == "chat" else "text_completion"
        self._common: dict[str, Any] = {"id": name, "object": kind, "created": created, "model": ask.model}
        before, _, after = self.content("\0", None).partition(b"\\u0000")
        self.head = before
        self.tail = after

    def role(self) -> bytes:
        """The first chunk of a chat."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        said = {**self._common, "choices": [choice], "prompt_token_ids": None}
        if self.ask.continuous:
            said["usage"] = _brief(usage(self.ask, 0, None))
        return event(said)

    def content(self, text: str, finish: str | None, made: int = 0) -> bytes:
        """A chunk with a piece of text. made: tokens so far, for who asked for continuous usage."""
        choice: dict[str, Any]
        if self.ask.kind == "chat":
            choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
            if finish is not None:
                choice["stop_reason"] = None
            choice["token_ids"] = None
        else:
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
            choice |= {"stop_reason": None, "prompt_token_ids": None, "token_ids": None}
        said = {**self._common, "choices": [choice]}
        if made:
            said["usage"] = _brief(usage(self.ask, made, None))
        return event(said)

    def total(self, made: int, cached: int | None) -> bytes:
        """The chunk that tells the tokens."""
        return event({**self._common, "choices": [], "usage": _brief(usage(self.ask, made, cached))})


def chat(ask: Ask, name: str, created: int, cached: int | None) -> bytes:
    """A whole chat completion."""
    message = {"role": "assistant", "content": ask.speech.text(), "refusal": None, "annotations": None, "audio": None}
    message |= {"function_call": None, "reasoning": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ask.finish, "stop_reason": None}
    choice["token_ids"] = None
    said = {"id": name, "object": "chat.completion", "created": created, "model": ask.model, "choices": [choice]}
    said |= {"service_tier": None, "system_fingerprint": None, "usage": usage(ask, ask.speech.tokens, cached)}
    said |= {"prompt_logprobs": None, "prompt_token_ids": None, "kv_transfer_params": None}
    return encode(said)


def completion(ask: Ask, name: str, created: int, cached: int | None) -> bytes:
    """A whole completion."""
    choice = {"index": 0, "text": ask.echo + ask.speech.text(), "logprobs": None, "finish_reason": ask.finish}
    choice |= {"stop_reason": None, "token_ids": None, "prompt_logprobs": None, "prompt_token_ids": None}
    said = {"id": name, "object": "text_completion", "created": created, "model": ask.model, "choices": [choice]}
    said |= {"service_tier": None, "system_fingerprint": None, "usage": usage(ask, ask.speech.tokens, cached)}
    return encode(said | {"kv_transfer_params": None})


def embeddings(asks: list[Ask], name: str, created: int, vectors: list[Any]) -> bytes:
    """The vectors of all inputs, lists of floats or base64."""
    data = [{"index": place, "object": "embedding", "embedding": vector} for place, vector in enumerate(vectors)]
    tokens = sum(len(ask.prompt) for ask in asks)
    told = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
    said = {"id": name, "object": "list", "created": created, "model": asks[0].model, "data": data, "usage": told}
    return encode(said)


def response(ask: Ask, name: str, created: int, made: int, cached: int | None, status: str) -> dict[str, Any]:
    """The object of `/v1/responses`, at the start (`in_progress`) or at the end of its making."""
    output = [message(name, ask.speech.text(), "completed")] if status != "in_progress" else []
    said = {"id": name, "object": "response", "created_at": created, "status": status, "model": ask.model}
    said |= {"output": output, "error": None, "incomplete_details": None, "instructions": None, "metadata": None}
    said |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0}
    said |= {"background": False, "service_tier": "auto", "text": None, "truncation": "disabled", "user": None}
    if status == "incomplete":
        said["incomplete_details"] = {"reason": "max_output_tokens"}
    said["usage"] = None
    if status != "in_progress":
        prompt = len(ask.prompt)
        said["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached or 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + made,
        }
    return said


def message(name: str, text: str, status: str) -> dict[str, Any]:
    """The one output item of a response."""
    content = [part(text)] if status == "completed" else []
    return {"id": f"msg_{name[5:]}", "type": "message", "role": "assistant", "status": status, "content": content}


def part(text: str) -> dict[str, Any]:
    """The one part of a response's message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def named(number: int, said: dict[str, Any]) -> bytes:
    """One event of a streamed response; its type stands beside it too."""
    return b"event: %b\ndata: %b\n\n" % (said["type"].encode(), encode({**said, "sequence_number": number}))


def models(names: tuple[str, ...], context: int, created: int, adapters: tuple[str, ...] = ()) -> bytes:
    """`/v1/models`: the model by all its names, and the adapters, `NAME=PATH`, whose `parent` it is."""
    granted = {"object": "model_permission", "created": created, "allow_create_engine": False, "allow_sampling": True}
    granted |= {"allow_logprobs": True, "allow_search_indices": False, "allow_view": True, "allow_fine_tuning": False}
    granted |= {"organization": "*", "group": None, "is_blocking": False}
    data = [
        {"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": names[0], "parent": None}
        | {"max_model_len": context, "permission": [{"id": f"modelperm-{name}", **granted}]}
        for name in names
    ]
    for each in adapters:
        name, _, path = each.partition("=")
        row = {"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": path or name}
        grants = [{"id": f"modelperm-{name}", **granted}]
        data.append(row | {"parent": names[0], "max_model_len": None, "permission": grants})
    return encode({"object": "list", "data": data})
