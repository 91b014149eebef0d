"""Parses bodies of Anthropic's Messages API, as engines serve it at /v1/messages."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct
from msgspec.json import Decoder

from poise.live.requests import bodies
from poise.live.requests.bodies import ABSENT, Count
from poise.live.requests.parsed_request import NO_OUTPUT, BadRequest, ParsedRequest, guarded, parsed
from poise.live.requests.prompt_text import NOTHING, PART, TURN, PromptText, digest, inner, joined, sent

BILLING: Final = "x-anthropic-billing-header"
"""How a part of the system prompt begins that differs in each request; vLLM drops it, or no prefix would be cached."""

Content = str | list[Raw] | None


class Metadata(Struct, gc=False):
    """Who asks."""

    user_id: str | None = None


class Message(Struct, gc=False):
    """One message of a conversation."""

    role: str
    content: Content = None


class Messages(bodies.Named, gc=False, kw_only=True):
    """/v1/messages."""

    messages: list[Message]
    max_tokens: Count | None = None
    system: Content = None
    tools: Raw = ABSENT
    metadata: Metadata | None = None


class Block(Struct, gc=False):
    """A part of a message. What else it has, as `cache_control`, is not part of the prompt."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: Raw = ABSENT
    tool_use_id: str = ""
    content: Content = None


_MESSAGES: Final = Decoder(Messages)
_PLAIN: Final = Decoder(bodies.Named)
_BLOCK: Final = Decoder(Block)


def read_messages(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/messages."""
    return guarded(_messages, body)


def read_count(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/messages/count_tokens, which an engine answers without its model."""
    return guarded(lambda given: parsed("tokens", _PLAIN.decode(given), NOTHING, NO_OUTPUT), body)


def _messages(body: bytes) -> ParsedRequest:
    given = _MESSAGES.decode(body)
    found = parsed("messages", given, _conversation(given), given.max_tokens)
    if given.metadata is not None:
        found.user = given.metadata.user_id or ""
    return found


def _conversation(given: Messages) -> PromptText:
    """Tools, system and messages, written as a chat's are."""
    pieces: list[str] = []
    media = 0
    head = sent(given.tools)
    if head:
        pieces += (head, TURN)
    if given.system:
        media += _turn("system", given.system, pieces)
    for message in given.messages:
        media += _turn(message.role, message.content, pieces)
    return joined(pieces, media)


def _turn(role: str, content: Content, pieces: list[str]) -> int:
    """Add a message; returns how many of its parts are not text. One part of text is as good as the text alone."""
    pieces += (role, PART)
    media = 0
    if isinstance(content, str):
        pieces.append(content)
    for place, raw in enumerate(content if isinstance(content, list) else ()):
        if place:
            pieces.append(PART)
        media += _block(raw, pieces)
    pieces.append(TURN)
    return media


def _block(raw: Raw, pieces: list[str]) -> int:
    block = inner(_BLOCK, raw, "content")
    text = block.text if block.thinking is None else block.thinking
    if text is not None:
        pieces.append("" if text.startswith(BILLING) else text)
        return 0
    if block.type == "tool_use":
        pieces += (block.id, PART, block.name, PART, sent(block.input))
        return 0
    if block.type != "tool_result":
        pieces.append(digest(raw))
        return 1
    media = 0
    pieces += (block.tool_use_id, PART)
    for part in block.content if isinstance(block.content, list) else ():
        media += _block(part, pieces)
    if isinstance(block.content, str):
        pieces.append(block.content)
    return media
