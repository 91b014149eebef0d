"""The canonical text of a prompt, by which equal beginnings are found.

It is not rendered: tools first, then each message as role and content, so that a conversation's next turn begins with
the bytes of this one. Pictures, sounds and files are replaced by a hash of themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from msgspec import Raw, ValidationError
from msgspec.json import Decoder
from xxhash import xxh3_64_hexdigest

from poise.live.requests import bodies
from poise.live.requests.bodies import ABSENT, Prompt, Token

PART: Final = "\x1f"
TURN: Final = "\x1e"
"""Unit and record separator of ASCII: between role and content, and after each message."""

_PART: Final = Decoder(bodies.Part)


class PromptText(NamedTuple):
    """The text of the first prompt, or its token ids; more: bytes of the other prompts.  media: parts without text."""

    text: bytes
    token_ids: bool = False
    more: int = 0
    media: int = 0


NOTHING: Final = PromptText(b"")
"""The prompt of a request that no model computes."""


def conversation(messages: Iterable[bodies.Message], tools: Raw = ABSENT) -> PromptText:
    """The text of a chat."""
    pieces: list[str] = []
    media = 0
    head = sent(tools)
    if head:
        pieces += (head, TURN)
    for message in messages:
        pieces += (message.role, PART)
        content = message.content
        if isinstance(content, str):
            pieces.append(content)
        elif content is not None:
            media += parts(content, pieces)
        if message.tool_calls is not ABSENT:
            pieces += (PART, sent(message.tool_calls))
        pieces.append(TURN)
    return joined(pieces, media)


def prompts(prompt: Prompt) -> PromptText:
    """One text or several, one prompt of token ids or several."""
    if not prompt:
        return PromptText(b"")
    if isinstance(prompt, str):
        return PromptText(prompt.encode())
    first = prompt[0]
    if isinstance(first, int):
        return PromptText(_packed(prompt), True)
    if isinstance(first, str):
        more = sum(len(each.encode()) for each in prompt[1:] if isinstance(each, str))
        return PromptText(first.encode(), False, more)
    return PromptText(_packed(first), True, 4 * sum(len(each) for each in prompt[1:] if isinstance(each, list)))


def pairs(first: list[str], second: list[str]) -> PromptText:
    """Pairs of texts that a model reads together: one with each of the second, or each with its own."""
    left = first * len(second) if len(first) == 1 else first
    texts = [f"{one}{PART}{other}" for one, other in zip(left, second, strict=False)]
    return prompts(list(texts))


def joined(pieces: list[str], media: int = 0) -> PromptText:
    """One prompt of these pieces."""
    return PromptText("".join(pieces).encode(), False, 0, media)


def parts(some: list[Raw], pieces: list[str]) -> int:
    """Add the texts of a message's parts and the hashes of the others; returns the number of others."""
    media = 0
    for part in some:
        text: str | None = inner(_PART, part, "content").text
        if text is None:
            media += 1
            text = digest(part)
        pieces += (text, PART)
    return media


def digest(raw: Raw) -> str:
    """In place of a part that is not text."""
    return xxh3_64_hexdigest(memoryview(raw))


def inner(decoder: Decoder[Any], raw: Raw, where: str) -> Any:
    """Decode what was kept raw; errors name the field."""
    try:
        return decoder.decode(raw)
    except ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise ValidationError(f"{message} - at `${where}[...]{path.rstrip('`')}`") from None


def sent(raw: Raw) -> str:
    """JSON as it was sent; empty for null and where there is none."""
    text = str(memoryview(raw), "utf-8")
    return "" if text == "null" else text


def _packed(tokens: list[Token] | list[str | Token | list[Token]]) -> bytes:
    return array("I", [each for each in tokens if isinstance(each, int)]).tobytes()
