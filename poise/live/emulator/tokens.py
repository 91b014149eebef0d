"""A toy tokenizer: every four bytes of UTF-8 are a token, and its id is those four bytes.

So a token depends on its own bytes alone, equal prefixes of text have equal tokens, and ids turn back into text without
a table. Four bytes a token is about the ratio of real tokenizers on English. The rest of a text whose bytes are not a
multiple of four is a token of its own; text with NUL characters is not restored exactly. Ids from 2^32 on are special.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

PIECE: Final = 4
"""Bytes of a token."""

BOS: Final = 1 << 32
ROLE: Final = BOS + 1
CONTENT: Final = BOS + 2
END: Final = BOS + 3
"""Special tokens: begin of text, of a role, of a message's content, and the end of a message."""

_INITIALS: Final = "bcdfghklmnprstvz"
_VOWELS: Final = "aeio"

WORDS: Final = tuple(f" {a}{b}{c}" for a in _INITIALS for b in _VOWELS for c in _INITIALS)
"""The vocabulary of an emulated model: 1,024 words of one token each."""

WORD_IDS: Final = tuple(int.from_bytes(word.encode(), "little") for word in WORDS)
"""The ids of `WORDS`."""

_MASK: Final = len(WORDS) - 1


def encode(text: str) -> array[int]:
    """The tokens of a text."""
    raw = text.encode("utf-8", "surrogatepass")
    pieces = array("I")
    pieces.frombytes(raw + bytes(-len(raw) % PIECE))
    if sys.byteorder == "big":
        pieces.byteswap()
    return array("Q", pieces)


def decode(tokens: Iterable[int]) -> str:
    """The text of tokens; special tokens have none."""
    raw = b"".join(token.to_bytes(PIECE, "little").rstrip(b"\0") for token in tokens if token < BOS)
    return raw.decode("utf-8", "replace")


def complete(prompt: str) -> array[int]:
    """The tokens of a prompt for completion."""
    return array("Q", (BOS,)) + encode(prompt)


def converse(messages: Iterable[Mapping[str, Any]], tools: object = None) -> array[int]:
    """The tokens of a conversation, the answer's role at its end, in the format of Llama 3's template."""
    tokens = array("Q", (BOS,))
    if tools:
        tokens += _message("tools", msgspec.json.encode(tools).decode())
    for message in messages:
        tokens += _message(str(message["role"]), "".join(_texts(message)))
    tokens += _head("assistant")
    return tokens


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a message: its content, text parts of it, and calls of tools."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif content:
        yield from (part["text"] for part in content)
    if message.get("tool_calls"):
        yield msgspec.json.encode(message["tool_calls"]).decode()


def _message(role: str, content: str) -> array[int]:
    tokens = _head(role) + encode(content)
    tokens.append(END)
    return tokens


def _head(role: str) -> array[int]:
    return array("Q", (ROLE, *encode(role), CONTENT))


class Tokenizer:
    """The output of one request: `tokens` words, ended by itself (`stops`) or by the limit.

    They are a walk through `WORDS`, start and stride drawn from `bits`, so any word is computed directly. The token
    that ends an answer is not counted: vLLM sends it as a last, empty piece of text.
    """

    __slots__ = ("_start", "_stride", "bits", "stops", "tokens")

    def __init__(self, bits: int, tokens: int, stops: bool) -> None:
        self.bits = bits
        self._start = bits & _MASK
        self._stride = bits >> 32 & _MASK | 1
        self.tokens = tokens
        self.stops = stops

    def place(self, token: int) -> int:
        """The index in `WORDS` of token number `token`."""
        return (self._start + token * self._stride) & _MASK

    def word(self, token: int) -> str:
        """The text of a token."""
        return WORDS[self.place(token)]

    def ids(self) -> array[int]:
        """The ids of all tokens."""
        start, stride = self._start, self._stride
        return array("Q", [WORD_IDS[(start + token * stride) & _MASK] for token in range(self.tokens)])

    def text(self) -> str:
        """The whole text."""
        return "".join(map(self.word, range(self.tokens)))
