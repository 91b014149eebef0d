"""Answers of a given text: JSON, and calls of tools in the form of Hermes (`<tool_call>{"name", "arguments"}`)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

from poise.live.emulator.json_text import Text
from poise.live.emulator.tokens import PIECE, encode

_BEFORE: Final = '<tool_call>\n{"name": %s, "arguments": '
_AFTER: Final = "}\n</tool_call>"


class Called(NamedTuple):
    """A call of a tool. start, end: of its arguments within the answer's text.  named: the request says which tool."""

    name: str
    id: str
    start: int
    end: int
    named: bool

    def piece(self, place: int, text: str) -> tuple[bool, str]:
        """What token `place` of the answer brings: whether it completes the name, and a part of the arguments."""
        at = place * PIECE
        return at < self.start <= at + len(text), text[max(self.start - at, 0) : max(self.end - at, 0)]


class Written:
    """The first `tokens` tokens of a text of ASCII; stops: whether that is all of it."""

    __slots__ = ("_text", "bits", "stops", "tokens")

    def __init__(self, text: str, tokens: int, bits: int, stops: bool) -> None:
        self._text = text[: tokens * PIECE]
        self.bits = bits
        self.stops = stops
        self.tokens = tokens

    def word(self, token: int) -> str:
        """The text of a token."""
        return self._text[token * PIECE : (token + 1) * PIECE]

    def ids(self) -> array[int]:
        """The ids of all tokens."""
        return encode(self._text)

    def text(self) -> str:
        """The whole text."""
        return self._text


def filled(text: Text, tokens: int, word: Callable[[int], str], exact: bool) -> str:
    """The text with words in its hole, so that it has `tokens` tokens, or as many as it needs.

    exact: a text without a hole gets spaces at its end.
    """
    least = text.least
    room = max(least, tokens * PIECE - len(text.before) - len(text.after))
    if text.hole:
        words = "".join(map(word, range(-(-room // PIECE))))[:room]
        return text.before + words + text.after
    whole = text.before + text.after
    return whole.ljust(tokens * PIECE) if exact else whole


def called(text: Text, name: str, identity: str, named: bool) -> tuple[Text, Callable[[str], Called]]:
    """A call whose arguments are `text`; and from the whole answer's text to what is called."""
    before = _BEFORE % json.dumps(name)
    around = text._replace(before=before + text.before, after=text.after + _AFTER)

    def call(answer: str) -> Called:
        return Called(name, identity, len(before), answer.rindex(_AFTER), named)

    return around, call


def tokens_of(text: str) -> int:
    """How many tokens a text of ASCII has."""
    return -(-len(text) // PIECE)
