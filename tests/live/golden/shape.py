"""What stays of an answer when ids, instants and texts are left out, and where two answers differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

EXACT: Final = frozenset(
    ("object", "type", "role", "index", "finish_reason", "stop_reason", "status", "param", "code", "owned_by", "detail",
     "error", "message", "max_model_len", "server_load", "event", "incomplete_details", "reason", "sequence_number",
     "completion_tokens", "output_tokens", "parent", "block_size", "medium", "group_idx", "lora_id",
     "lora_name", "kv_cache_spec_kind")
)  # fmt: skip
"""Fields whose values are the same in every engine, not only their types."""

FREE: Final = frozenset(("tokens",))
"""Lists that are as long as a tokenizer makes them."""

UNSTABLE: Final = re.compile(r"\b(chatcmpl|cmpl|resp|msg|modelperm)([-_])[0-9a-f-]{8,}")


def parsed(body: bytes) -> Any:
    """An answer's body: the events of a stream, JSON, or a text."""
    text = body.decode()
    if text.startswith(("data: ", "event: ")):
        return [_event(each) for each in text.split("\n\n") if each]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _event(text: str) -> Any:
    name, _, data = text.rpartition("data: ")
    content = data if data == "[DONE]" else json.loads(data)
    return {"event": name.strip().removeprefix("event: "), **content} if name else content


def steady(content: Any) -> Any:
    """Without what is new each time: ids and instants."""
    if isinstance(content, dict):
        return {
            name: 0 if name in ("created", "created_at", "completed_at") and value else steady(value)
            for name, value in content.items()
        }
    if isinstance(content, list):
        return [steady(each) for each in content]
    return UNSTABLE.sub(r"\1\g<2>0", content) if isinstance(content, str) else content


def differences(golden: Any, made: Any, where: str = "", exact: bool = False) -> Iterator[str]:
    """Where `made` is of another shape: other fields, other types, other lengths of lists."""
    if type(golden) is not type(made):
        yield f"{where}: {made!r} instead of {golden!r}"
    elif isinstance(golden, dict):
        if golden.keys() != made.keys():
            yield f"{where}: fields {sorted(made)} instead of {sorted(golden)}"
        for name in golden.keys() & made.keys():
            if name not in FREE:
                yield from differences(golden[name], made[name], f"{where}.{name}", name in EXACT)
    elif isinstance(golden, list):
        if len(golden) != len(made):
            yield f"{where}: {len(made)} instead of {len(golden)} in {made!r}"
        for place, (one, other) in enumerate(zip(golden, made, strict=False)):
            yield from differences(one, other, f"{where}[{place}]", exact)
    elif exact and golden != made:
        yield f"{where}: {made!r} instead of {golden!r}"


def lines(content: Any) -> str:
    """JSON with a line for each entry of the outermost list or object."""
    if isinstance(content, dict):
        return "{\n" + ",\n".join(f"{json.dumps(name)}: {_line(each)}" for name, each in content.items()) + "\n}\n"
    return "[\n" + ",\n".join(map(_line, content)) + "\n]\n"


def _line(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def families(page: str) -> dict[str, dict[str, Any]]:
    """What a page of metrics has: of each family its type, the labels of its samples, and bounds of buckets."""
    found: dict[str, dict[str, Any]] = {}
    for family in text_string_to_metric_families(page):
        if not family.name.startswith("vllm:"):
            continue
        labels = sorted({name for sample in family.samples for name in sample.labels})
        found[family.name] = {"type": family.type, "labels": labels}
        bounds = list(dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels))
        if bounds:
            found[family.name]["bounds"] = bounds
    return found
