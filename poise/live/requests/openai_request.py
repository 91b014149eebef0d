"""Parses OpenAI's request bodies that make a model generate or embed: the fields that decisions need, and the prompt.

A body is decoded once and forwarded as the client sent it; fields that no decision needs are skipped.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Decoder

from poise.live.requests import bodies
from poise.live.requests.parsed_request import NO_OUTPUT, BadRequest, ParsedRequest, bad, guarded, parsed
from poise.live.requests.prompt_text import PART, TURN, PromptText, conversation, inner, joined, parts, prompts, sent

_CHAT: Final = Decoder(bodies.Chat)
_COMPLETION: Final = Decoder(bodies.Completion)
_RESPONSES: Final = Decoder(bodies.Responses)
_EMBEDDINGS: Final = Decoder(bodies.Embeddings)
_ITEM: Final = Decoder(bodies.Item)


def read_chat(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/chat/completions."""
    return guarded(_chat, body)


def read_completion(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/completions."""
    return guarded(_completion, body)


def read_responses(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/responses."""
    return guarded(_responses, body)


def read_embeddings(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/embeddings; vLLM takes messages in place of `input`."""
    return guarded(_embeddings, body)


def _chat(body: bytes) -> ParsedRequest:
    given = _CHAT.decode(body)
    limit = given.max_tokens if given.max_completion_tokens is None else given.max_completion_tokens
    return parsed("chat", given, conversation(given.messages, given.tools), limit)


def _completion(body: bytes) -> ParsedRequest:
    given = _COMPLETION.decode(body)
    return parsed("completion", given, prompts(given.prompt), given.max_tokens)


def _responses(body: bytes) -> ParsedRequest:
    given = _RESPONSES.decode(body)
    return parsed("responses", given, _items(given), given.max_output_tokens, given.previous_response_id)


def _embeddings(body: bytes) -> ParsedRequest | BadRequest:
    given = _EMBEDDINGS.decode(body)
    if given.messages is not None:
        return parsed("embeddings", given, conversation(given.messages), NO_OUTPUT)
    if given.input is None:
        return bad("`input` is missing; give the text or texts to embed", "input")
    return parsed("embeddings", given, prompts(given.input), NO_OUTPUT)


def _items(body: bodies.Responses) -> PromptText:
    pieces: list[str] = []
    media = 0
    for head in (body.instructions, sent(body.tools)):
        if head:
            pieces += (head, TURN)
    if isinstance(body.input, str):
        pieces += ("user", PART, body.input, TURN)
    for raw in body.input if isinstance(body.input, list) else ():
        item: bodies.Item = inner(_ITEM, raw, "input")
        if item.role is None:
            pieces += (sent(raw), TURN)
            continue
        pieces += (item.role, PART)
        if isinstance(item.content, str):
            pieces.append(item.content)
        elif item.content is not None:
            media += parts(item.content, pieces)
        pieces.append(TURN)
    return joined(pieces, media)
