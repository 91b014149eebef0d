"""Parses an OpenAI request body: the fields that decisions need, and the bytes that identify its prompt.

A body is decoded once and forwarded as the client sent it; fields that no decision needs are skipped. The text of a
prompt is canonical, not rendered: tools first, then each message as role and content, so that a conversation's next
turn begins with the bytes of this one. Pictures, sounds and files are replaced by a hash of themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import DecodeError, Raw, ValidationError
from msgspec.json import Decoder
from xxhash import xxh3_64_hexdigest

from poise.live.http.refuse import error_body
from poise.live.requests import bodies
from poise.live.requests.bodies import ABSENT, Prompt, Token
from poise.live.requests.parsed import ParsedRequest

PART: Final = "\x1f"
TURN: Final = "\x1e"
"""Unit and record separator of ASCII: between role and content, and after each message."""


class BadRequest(NamedTuple):
    """Why a request is refused, in OpenAI's format; `json` is the body."""

    status: int
    type: str
    param: str | None
    message: str
    code: str | None = None

    def json(self) -> bytes:
        """The error object of the OpenAI API."""
        return error_body(self.code, self.type, self.message, self.param)


_Kind = TypeVar("_Kind")


class _Prompt(NamedTuple):
    text: bytes
    token_ids: bool = False
    more: int = 0
    media: int = 0


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


READERS: Final[dict[bytes, Callable[[bytes], ParsedRequest | BadRequest]]] = {
    b"/v1/chat/completions": read_chat,
    b"/v1/completions": read_completion,
    b"/v1/responses": read_responses,
    b"/v1/embeddings": read_embeddings,
}
"""The body's reader, for each path that takes a prompt."""

_CHAT = Decoder(bodies.Chat)
_COMPLETION = Decoder(bodies.Completion)
_RESPONSES = Decoder(bodies.Responses)
_EMBEDDINGS = Decoder(bodies.Embeddings)
_ITEM = Decoder(bodies.Item)
_PART = Decoder(bodies.Part)


def guarded(read: Callable[[bytes], _Kind], body: bytes) -> _Kind | BadRequest:
    """The result of `read` on a body, or the error in it. Raw parts are decoded late, so any step may fail.

    The whole body must be UTF-8, skipped fields included, so that later readers cannot fail on it.
    """
    try:
        if not body.isascii():
            body.decode()
        return read(body)
    except ValidationError as error:
        return _invalid(str(error))
    except (DecodeError, UnicodeDecodeError) as error:
        return _bad(f"the body is not valid JSON: {error}; send one JSON object in UTF-8")
    except RecursionError:
        return _bad("the body is nested too deeply; send a JSON object of at most a few hundred levels")


def _chat(body: bytes) -> ParsedRequest:
    given = _CHAT.decode(body)
    limit = given.max_tokens if given.max_completion_tokens is None else given.max_completion_tokens
    return _parsed("chat", given, _conversation(given.messages, given.tools), limit)


def _completion(body: bytes) -> ParsedRequest:
    given = _COMPLETION.decode(body)
    return _parsed("completion", given, _prompts(given.prompt), given.max_tokens)


def _responses(body: bytes) -> ParsedRequest:
    given = _RESPONSES.decode(body)
    return _parsed("responses", given, _items(given), given.max_output_tokens, given.previous_response_id)


def _embeddings(body: bytes) -> ParsedRequest | BadRequest:
    given = _EMBEDDINGS.decode(body)
    if given.messages is not None:
        return _parsed("embeddings", given, _conversation(given.messages, ABSENT), None)
    if given.input is None:
        return _bad("`input` is missing; give the text or texts to embed", "input")
    return _parsed("embeddings", given, _prompts(given.input), None)


def _bad(message: str, param: str | None = None) -> BadRequest:
    return BadRequest(400, "invalid_request_error", param, message)


def _invalid(text: str) -> BadRequest:
    """msgspec's "Expected `str`, got `int` - at `$.messages[0].role`" with the field as OpenAI's `param`."""
    text, _, path = text.partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or None
    if text.startswith("Object missing required field"):
        missing = text.split("`")[1]
        field = f"{field}.{missing}" if field else missing
        text = f"{missing} is missing"
    elif field is None:
        return _bad(f"the body: {text}; send one JSON object")
    return _bad(f"{field}: {text}", field)


def _parsed(
    kind: str, body: bodies.Common, prompt: _Prompt, limit: int | None, previous: str | None = None
) -> ParsedRequest:
    options = body.stream_options
    return ParsedRequest(
        kind,
        body.model,
        prompt.text,
        bool(body.stream),
        options is not None and bool(options.include_usage),
        limit or 0,
        body.n or 1,
        body.priority or 0,
        body.user or "",
        body.prompt_cache_key or "",
        body.cache_salt or "",
        previous or "",
        prompt.token_ids,
        prompt.more,
        prompt.media,
    )


def _conversation(messages: list[bodies.Message], tools: Raw) -> _Prompt:
    pieces: list[str] = []
    media = 0
    head = _text(tools)
    if head:
        pieces += (head, TURN)
    for message in messages:
        pieces += (message.role, PART)
        content = message.content
        if isinstance(content, str):
            pieces.append(content)
        elif content is not None:
            media += _parts(content, pieces)
        if message.tool_calls is not ABSENT:
            pieces += (PART, _text(message.tool_calls))
        pieces.append(TURN)
    return _Prompt("".join(pieces).encode(), False, 0, media)


def _inner(decoder: Decoder[Any], raw: Raw, where: str) -> Any:
    """Decode what was kept raw; errors name the field."""
    try:
        return decoder.decode(raw)
    except ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise ValidationError(f"{message} - at `${where}[...]{path.rstrip('`')}`") from None


def _parts(parts: list[Raw], pieces: list[str]) -> int:
    """Add the texts of a message's parts and the hashes of the others; returns the number of others."""
    media = 0
    for part in parts:
        text: str | None = _inner(_PART, part, "content").text
        if text is None:
            media += 1
            text = xxh3_64_hexdigest(memoryview(part))
        pieces += (text, PART)
    return media


def _items(body: bodies.Responses) -> _Prompt:
    pieces: list[str] = []
    media = 0
    for head in (body.instructions, _text(body.tools)):
        if head:
            pieces += (head, TURN)
    if isinstance(body.input, str):
        pieces += ("user", PART, body.input, TURN)
    for raw in body.input if isinstance(body.input, list) else ():
        item: bodies.Item = _inner(_ITEM, raw, "input")
        if item.role is None:
            pieces += (_text(raw), TURN)
            continue
        pieces += (item.role, PART)
        if isinstance(item.content, str):
            pieces.append(item.content)
        elif item.content is not None:
            media += _parts(item.content, pieces)
        pieces.append(TURN)
    return _Prompt("".join(pieces).encode(), False, 0, media)


def _prompts(prompt: Prompt) -> _Prompt:
    """One text or several, one prompt of token ids or several."""
    if not prompt:
        return _Prompt(b"")
    if isinstance(prompt, str):
        return _Prompt(prompt.encode())
    first = prompt[0]
    if isinstance(first, int):
        return _Prompt(_packed(prompt), True)
    if isinstance(first, str):
        return _Prompt(first.encode(), False, sum(len(each.encode()) for each in prompt[1:] if isinstance(each, str)))
    return _Prompt(_packed(first), True, 4 * sum(len(each) for each in prompt[1:] if isinstance(each, list)))


def _packed(tokens: list[Token] | list[str | Token | list[Token]]) -> bytes:
    return array("I", [each for each in tokens if isinstance(each, int)]).tobytes()


def _text(raw: Raw) -> str:
    """JSON as it was sent; empty for null and where there is none."""
    text = str(memoryview(raw), "utf-8")
    return "" if text == "null" else text
