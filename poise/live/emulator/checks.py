"""Checks of bodies by vLLM's rules: messages, prompts, sampling parameters, and how long KV shall stay."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import Any, Final

from poise.live.emulator.refuse import Refused, invalid, missing, number, unfit, whole
from poise.live.emulator.tokens import complete

OUTPUT: Final = b"x-emulated-output-tokens"
"""A header that fixes how many tokens an answer has."""

LONGEST_S: Final = 30 * 86_400
"""The longest time for which KV is kept on request."""
MOST: Final = 16_384
"""Most choices of one request, as in vLLM (`VLLM_MAX_N_SEQUENCES`)."""
_TTL: Final = re.compile(r"(\d{1,6})([smh])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600}


def messages_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages, each with a role and a content that is text."""
    messages = body.get("messages")
    if messages is None:
        raise missing("messages", body)
    if not isinstance(messages, list):
        raise invalid("list_type", ("messages",), "Input should be a valid list", messages)
    if not messages:
        raise Refused(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise invalid("missing", ("messages", place, "role"), "Field required", message)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
                raise Refused(400, "the emulated engine reads text only; send content parts that have a `text`")
        if content is not None and not isinstance(content, str | list):
            raise invalid("string_type", ("messages", place, "content"), "Input should be a valid string", content)
    return messages


def prompt_of(body: Mapping[str, Any]) -> tuple[array[int], str]:
    """The tokens of a prompt that is a text or tokens, or a list of just one such; and its text, if it has one."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if prompt is None or prompt in ("", []):
        raise unfit("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(prompt, str):
        return complete(prompt), prompt
    if not isinstance(prompt, list):
        raise _no_prompt(prompt)
    if not all(isinstance(each, int) and 0 <= each < 1 << 64 for each in prompt):
        raise Refused(400, "the emulated engine takes one prompt a request: a text, or token ids from 0 up")
    return array("Q", prompt), ""


def _no_prompt(given: object) -> Refused:
    """The refusal of a prompt of none of the four types: one error for each of them."""
    a_list, a_text = (("list_type", "Input should be a valid list"), ("string_type", "Input should be a valid string"))
    errors = [invalid(kind, ("prompt",), message, given) for kind, message in (a_list, a_list, a_text, a_list)]
    text = "".join(each.message.partition(":")[2] for each in errors)
    return Refused(400, f"{len(errors)} validation errors:{text}", errors[0].kind, errors[0].param)


def keep_s(body: Mapping[str, Any]) -> int:
    """Seconds of Dynamo's `nvext.cache_control`: a ttl as in `30s`, `5m`, `1h`; 0 for anything else."""
    extension = body.get("nvext")
    control = extension.get("cache_control") if isinstance(extension, Mapping) else None
    if not isinstance(control, Mapping) or control.get("type") != "ephemeral":
        return 0
    found = _TTL.fullmatch(str(control.get("ttl")))
    return min(int(found[1]) * _UNIT_S[found[2]], LONGEST_S) if found else 0


def or_one(value: float | None) -> float:
    """The value, 1 where it is not given."""
    return 1.0 if value is None else value


def sampling(body: Mapping[str, Any]) -> None:
    """Refuse what vLLM's sampling parameters refuse, for the parameters that requests are likely to have."""
    temperature, top_p = number(body, "temperature"), number(body, "top_p")
    if temperature is not None and temperature < 0:
        raise unfit(f"temperature must be non-negative, got {temperature}.", "temperature", temperature)
    if top_p is not None and not 0 < top_p <= 1:
        raise unfit(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    choices = whole(body, "n")
    if choices is not None and choices < 1:
        raise Refused(400, f"n must be at least 1, got {choices}.")
    if choices is not None and choices > MOST:
        raise Refused(400, f"n must be at most {MOST}, got {choices}.")
    if choices is not None and choices > 1 and temperature == 0:
        raise Refused(400, f"n must be 1 when using greedy sampling, got {choices}.")
    if body.get("stream_options") and not body.get("stream"):
        raise unfit("Stream options can only be defined when `stream=True`.", "stream_options")


def output_of(given: bytes | None) -> int:
    """The number of tokens in the header `OUTPUT`, 0 without it."""
    if given is None:
        return 0
    if not given.isdigit() or not int(given):
        raise Refused(400, f"{OUTPUT.decode()} must be a number of tokens, 1 or more", param=OUTPUT.decode())
    return int(given)
