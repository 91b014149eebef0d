"""A body of /v1/messages as the chat that engines make of it (vLLM 0.32, `entrypoints/anthropic/serving.py`).

The system prompt is the first message, calls and results of tools are OpenAI's. Only what a chat template sees is
translated, and the fields that say what the answer may be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from poise.live.requests.messages_request import BILLING

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


def chat_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the chat. TypeError, LookupError or AttributeError where the body is not as it must be."""
    messages: list[dict[str, Any]] = []
    system = _system(body.get("system"))
    if system:
        messages.append({"role": "system", "content": system})
    for message in body["messages"]:
        messages += _turn(message)
    chat: dict[str, Any] = {"messages": messages}
    for name in ("model", "max_tokens", "stream", "temperature", "top_p", "chat_template_kwargs"):
        if body.get(name) is not None:
            chat[name] = body[name]
    if body.get("tools"):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    choice = body.get("tool_choice")
    if choice:
        named = {"type": "function", "function": {"name": choice.get("name")}}
        chat["tool_choice"] = _CHOICES.get(choice["type"], named)
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    if schema:
        chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "json_schema", "schema": schema}}
    return chat


def _system(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    if isinstance(content, str) or not content:
        return content if isinstance(content, str) else ""
    texts = [block.get("text") or "" for block in content if block.get("type", "text") == "text"]
    return "".join(text for text in texts if not text.startswith(BILLING))


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", **(tool.get("input_schema") or {})}
    function = {"name": tool["name"], "description": tool.get("description"), "parameters": schema}
    return {"type": "function", "function": function}


def _turn(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of one: results of tools come before what else a user says."""
    role, content = message["role"], message.get("content")
    if role == "system":
        text = _system(content)
        return [{"role": role, "content": text}] if text else []
    if not isinstance(content, list):
        return [{"role": role, "content": content}]
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for block in content:
        match block["type"]:
            case "text" if block.get("text"):
                parts.append({"type": "text", "text": block["text"]})
            case "image":
                parts.append({"type": "image_url", "image_url": block.get("source")})
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block.get("input") or {})}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case "tool_result":
                results.append(
                    {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _result(block.get("content"))}
                )
    whole: dict[str, Any] = {"role": role}
    if parts:
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        whole["content"] = parts[0]["text"] if alone else parts
    if calls:
        whole["tool_calls"] = calls
    return [*results, whole] if role != "user" or parts else results


def _result(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    if isinstance(content, str) or not content:
        return content if isinstance(content, str) else ""
    return "\n".join(part.get("text") or "" for part in content if part.get("type") == "text")
