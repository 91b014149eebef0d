"""The fields of OpenAI's and vLLM's bodies that are read, as typed structs; all other fields are skipped.

`Raw` keeps the JSON of a value as it was sent, for what is hashed or looked at later.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Rank = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
Token = Annotated[int, Meta(ge=0, lt=1 << 32)]
Prompt = str | list[str | Token | list[Token]] | None

ABSENT: Final = Raw()
"""In place of a raw value that was not sent."""


class StreamOptions(Struct, gc=False):
    """Options of a streamed answer."""

    include_usage: bool | None = None


class Common(Struct, gc=False, kw_only=True):
    """Fields of every body. model: where it may be absent, the only one that engines serve is meant."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    priority: Rank | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None


class Named(Common, gc=False, kw_only=True):
    """A body that must name its model."""

    model: str


class Message(Struct, gc=False):
    """One message of a conversation."""

    role: str
    content: str | list[Raw] | None = None
    tool_calls: Raw = ABSENT


class Chat(Named, gc=False, kw_only=True):
    """/v1/chat/completions."""

    messages: list[Message]
    tools: Raw = ABSENT
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None


class Completion(Named, gc=False, kw_only=True):
    """/v1/completions."""

    prompt: Prompt = None
    max_tokens: Count | None = None


class Responses(Named, gc=False, kw_only=True):
    """/v1/responses."""

    input: str | list[Raw] | None = None
    instructions: str | None = None
    tools: Raw = ABSENT
    max_output_tokens: Count | None = None
    previous_response_id: str | None = None


class Embeddings(Named, gc=False, kw_only=True):
    """/v1/embeddings."""

    input: Prompt = None
    messages: list[Message] | None = None


class Item(Struct, gc=False):
    """An item of a response's input: a message where it has a role, else a call, its output, a thought."""

    role: str | None = None
    content: str | list[Raw] | None = None


class Part(Struct, gc=False):
    """A part of a message's content; its text, if it is one."""

    text: str | None = None


class Pooling(Common, gc=False, kw_only=True):
    """/classify and /pooling; data: of a plugin."""

    input: Prompt = None
    messages: list[Message] | None = None
    data: Raw = ABSENT


class Rerank(Common, gc=False, kw_only=True):
    """/rerank, as Jina and Cohere have it."""

    query: Raw
    documents: Raw


class Score(Common, gc=False, kw_only=True):
    """/score: one text or several on each side, which has several names."""

    text_1: Raw = ABSENT
    text_2: Raw = ABSENT
    data_1: Raw = ABSENT
    data_2: Raw = ABSENT
    queries: Raw = ABSENT
    query: Raw = ABSENT
    items: Raw = ABSENT
    documents: Raw = ABSENT


class Speech(Named, gc=False, kw_only=True):
    """/v1/audio/speech."""

    input: str
    instructions: str | None = None
    stream_format: str | None = None
