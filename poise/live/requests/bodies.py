"""The fields of OpenAI bodies that are read, as typed structs; all other fields are skipped.

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
    """Fields of every body."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    priority: Rank | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None


class Message(Struct, gc=False):
    """One message of a conversation."""

    role: str
    content: str | list[Raw] | None = None
    tool_calls: Raw = ABSENT


class Chat(Common, gc=False, kw_only=True):
    """/v1/chat/completions."""

    messages: list[Message]
    tools: Raw = ABSENT
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None


class Completion(Common, gc=False, kw_only=True):
    """/v1/completions."""

    prompt: Prompt = None
    max_tokens: Count | None = None


class Responses(Common, gc=False, kw_only=True):
    """/v1/responses."""

    input: str | list[Raw] | None = None
    instructions: str | None = None
    tools: Raw = ABSENT
    max_output_tokens: Count | None = None
    previous_response_id: str | None = None


class Embeddings(Common, gc=False, kw_only=True):
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
