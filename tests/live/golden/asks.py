"""What is asked of the real engine when the golden files are recorded, and of the emulated one to be held to them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

NAME: Final = "tiny"
BLOCK: Final = 32
BLOCKS: Final = 160
CONTEXT: Final = 4096
"""How both engines are started."""

CHAT: Final = "/v1/chat/completions"
COMPLETION: Final = "/v1/completions"
RESPONSE: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
COUNT: Final = "/v1/messages/count_tokens"

Body = dict[str, Any]


class Question(NamedTuple):
    """One request."""

    method: str
    path: str
    body: Body | str | None = None


def chat(**given: Any) -> Question:
    messages = [{"role": "user", "content": "Tell me something."}]
    return Question("POST", CHAT, {"model": NAME, "messages": messages, "max_tokens": 3, **SURE, **given})


def completion(**given: Any) -> Question:
    return Question("POST", COMPLETION, {"model": NAME, "prompt": "Once upon a time", "max_tokens": 3, **SURE, **given})


def response(**given: Any) -> Question:
    return Question("POST", RESPONSE, {"model": NAME, "input": "Hi", "max_output_tokens": 3, **SURE, **given})


def message(**given: Any) -> Question:
    """Of one token, since `ignore_eos` is not known there."""
    messages = [{"role": "user", "content": "Tell me something."}]
    return Question("POST", MESSAGES, {"model": NAME, "messages": messages, "max_tokens": 1, "temperature": 0, **given})


def without(question: Question, field: str) -> Question:
    assert isinstance(question.body, dict)
    return question._replace(body={name: value for name, value in question.body.items() if name != field})


SURE: Final = {"temperature": 0, "ignore_eos": True}
"""Answers of just as many tokens as were asked for."""

TOOLS: Final = [
    {"type": "function", "function": {"name": "weather", "description": "Of a town.", "parameters": {"type": "object"}}}
]
USAGE: Final = {"stream": True, "stream_options": {"include_usage": True}}
ALWAYS: Final = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}

QUESTIONS: Final[dict[str, Question]] = {
    "chat": chat(),
    "chat, n of 1": chat(n=1),
    "chat of parts": chat(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]),
    "chat, max_completion_tokens": chat(max_completion_tokens=2),
    "chat, streamed": chat(stream=True),
    "chat, streamed with usage": chat(**USAGE),
    "chat, streamed with usage always": chat(**ALWAYS),
    "chat, a field of no server": chat(of_no_server={"deep": 1}),
    "chat, no model": without(chat(), "model"),
    "completion": completion(),
    "completion of token ids": completion(prompt=[0, 300, 301, 302]),
    "completion of one text in a list": completion(prompt=["Once upon a time"]),
    "completion with echo": completion(echo=True),
    "completion, no limit": without(completion(), "max_tokens"),
    "completion, streamed": completion(stream=True),
    "completion, streamed with usage": completion(**USAGE),
    "completion, streamed with usage always": completion(**ALWAYS),
    "models": Question("GET", "/v1/models"),
    "health": Question("GET", "/health"),
    "ping": Question("GET", "/ping"),
    "ping, posted": Question("POST", "/ping"),
    "load": Question("GET", "/load"),
    "version": Question("GET", "/version"),
    "tokenize": Question("POST", "/tokenize", {"model": NAME, "prompt": "Once upon a time"}),
    "detokenize": Question("POST", "/detokenize", {"model": NAME, "tokens": [300, 301]}),
    "reset of prefixes": Question("POST", "/reset_prefix_cache"),
    "no such path": Question("GET", "/nowhere"),
    "wrong method": Question("GET", CHAT),
    "no JSON": Question("POST", CHAT, '{"model": '),
    "nothing": Question("POST", CHAT, ""),
    "no object": Question("POST", CHAT, "[]"),
    "no such model": chat(model="other"),
    "no messages": without(chat(), "messages"),
    "messages of one text": chat(messages="Hi"),
    "empty messages": chat(messages=[]),
    "no prompt": without(completion(), "prompt"),
    "empty prompt": completion(prompt=""),
    "prompt of a number": completion(prompt=5),
    "max_tokens 0": chat(max_tokens=0),
    "max_tokens below 0": chat(max_tokens=-1),
    "max_tokens of a text": chat(max_tokens="many"),
    "max_tokens over the context": chat(max_tokens=CONTEXT + 1),
    "prompt and limit over the context": completion(prompt=[300] * (CONTEXT - 2), max_tokens=CONTEXT),
    "prompt of the context": completion(prompt=[300] * CONTEXT),
    "prompt over the context": completion(prompt=[300] * (CONTEXT + 5)),
    "temperature below 0": chat(temperature=-1),
    "temperature of a text": chat(temperature="warm"),
    "top_p 0": chat(top_p=0),
    "top_p over 1": chat(top_p=2),
    "n 0": chat(n=0),
    "options without a stream": chat(stream_options={"include_usage": True}),
    "min_tokens over max_tokens": chat(min_tokens=9),
    "empty cache_salt": chat(cache_salt=""),
    "cache_salt": chat(cache_salt="a"),
    "priority": chat(priority=3),
    "seed": chat(seed=5),
    "min_tokens": chat(min_tokens=2),
    "response": response(),
    "response, streamed": response(stream=True),
    "chat, n of 2": chat(n=2, temperature=1),
    "chat, n of 2, streamed with usage": chat(n=2, temperature=1, max_tokens=1, **USAGE),
    "chat, n of 2, greedy": chat(n=2),
    "completion, n of 2": completion(n=2, temperature=1),
    "completion, n of 2, streamed with usage": completion(n=2, temperature=1, max_tokens=1, **USAGE),
    "tools of which none is chosen": chat(tools=TOOLS, tool_choice="none"),
    "tool_choice of no such tool": chat(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}}),
    "tool_choice without tools": chat(tool_choice="required"),
    "json_schema without a schema": chat(response_format={"type": "json_schema"}),
    "json_object": chat(response_format={"type": "json_object"}, max_tokens=1),
    "message": message(),
    "message, streamed": message(stream=True),
    "message with a system prompt": message(system=[{"type": "text", "text": "Be brief."}]),
    "message, no model": without(message(), "model"),
    "message, no messages": without(message(), "messages"),
    "message, no max_tokens": without(message(), "max_tokens"),
    "message, max_tokens 0": message(max_tokens=0),
    "message, max_tokens over the context": message(max_tokens=CONTEXT + 1),
    "message, no such model": message(model="other"),
    "message, top_p 0": message(top_p=0),
    "count of tokens": Question("POST", COUNT, without(message(), "max_tokens").body),
    "count of tokens, no messages": Question("POST", COUNT, {"model": NAME}),
}

PROMPT: Final = [0, *range(300, 300 + 2 * BLOCK + 8)]
"""Two blocks and a piece."""

CACHED: Final[tuple[Body, ...]] = (
    {"prompt": PROMPT},
    {"prompt": PROMPT},
    {"prompt": PROMPT[: 2 * BLOCK] + list(range(900, 900 + BLOCK + 4))},
    {"prompt": PROMPT, "cache_salt": "a"},
    {"prompt": [0, *range(500, 500 + BLOCK - 3)], "max_tokens": 4},
)
"""Completions in turn, which change what is cached: two blocks, none, a third, two salted, one filled by an output."""

FIRST: Final = {"prompt": [0, *range(2000, 2000 + BLOCK)]}
LAST: Final = {"prompt": [0, *range(2100, 2100 + BLOCK)]}
"""Completions before and after those, by which their events are found."""
