"""Parses bodies of requests that generate nothing: rerank, score, classify, pool, and those for a tokenizer alone."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.json import Decoder, decode

from poise.live.requests import bodies
from poise.live.requests.bodies import ABSENT
from poise.live.requests.parsed_request import NO_OUTPUT, BadRequest, ParsedRequest, bad, guarded, parsed
from poise.live.requests.prompt_text import NOTHING, PromptText, conversation, digest, pairs, prompts, sent

_RERANK: Final = Decoder(bodies.Rerank)
_SCORE: Final = Decoder(bodies.Score)
_POOLING: Final = Decoder(bodies.Pooling)
_PLAIN: Final = Decoder(bodies.Common)


def read_rerank(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /rerank: a query that is read with each of the documents."""
    return guarded(_rerank, body)


def read_score(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /score: texts in pairs, under any of the names that vLLM and SGLang have for them."""
    return guarded(_score, body)


def read_classify(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /classify."""
    return guarded(lambda given: _pooling("classify", given), body)


def read_pooling(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /pooling; a plugin's `data` counts by its size."""
    return guarded(lambda given: _pooling("pooling", given), body)


def read_tokens(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /tokenize or /detokenize, which an engine answers without its model: a prompt of no work."""
    return guarded(lambda given: parsed("tokens", _PLAIN.decode(given), NOTHING, NO_OUTPUT), body)


def _rerank(body: bytes) -> ParsedRequest:
    given = _RERANK.decode(body)
    return parsed("rerank", given, pairs(_texts(given.query), _texts(given.documents)), NO_OUTPUT)


def _score(body: bytes) -> ParsedRequest | BadRequest:
    given = _SCORE.decode(body)
    first = next(
        (each for each in (given.text_1, given.data_1, given.queries, given.query) if each is not ABSENT), ABSENT
    )
    seconds = (given.text_2, given.data_2, given.items, given.documents)
    second = next((each for each in seconds if each is not ABSENT), ABSENT)
    if first is ABSENT or second is ABSENT:
        name = "text_1" if first is ABSENT else "text_2"
        return bad(f"{name} is missing; give text_1 and text_2, or queries and documents", name)
    return parsed("score", given, pairs(_texts(first), _texts(second)), NO_OUTPUT)


def _pooling(kind: str, body: bytes) -> ParsedRequest | BadRequest:
    given = _POOLING.decode(body)
    if given.messages is not None:
        return parsed(kind, given, conversation(given.messages), NO_OUTPUT)
    if given.input is not None:
        return parsed(kind, given, prompts(given.input), NO_OUTPUT)
    if given.data is ABSENT:
        return bad("input is missing; give the text or texts, or messages", "input")
    return parsed(kind, given, PromptText(digest(given.data).encode(), False, len(sent(given.data)), 1), NO_OUTPUT)


def _texts(raw: Raw) -> list[str]:
    """The texts of one side: a text, or a list of texts, documents with a `text`, or anything else."""
    given = decode(raw)
    many = given if isinstance(given, list) else [given]
    return [_text(each) for each in many]


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, dict) and isinstance(given.get("text"), str):
        return str(given["text"])
    return str(given)
