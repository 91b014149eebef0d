"""Answers that need prompts computed and nothing generated: embeddings, pooling, classes, scores, ranks.

Each prompt is a request of its own; the answer is sent when all are computed. Its numbers are drawn from the prompt.
"""

from __future__ import annotations

import base64
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from poise.core.chance import mix
from poise.live.emulator.checks import messages_of, prompt_of
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.refuse import missing
from poise.live.emulator.reply import Outlet, Reply
from poise.live.emulator.shape import encode
from poise.live.emulator.tokens import complete, converse

_WIDTH: Final = 16
CLASSES: Final = 2
Body = Mapping[str, Any]


class Kind(NamedTuple):
    """One path. prefix: of answers' ids.  prompts: in a body.  write: the answer, from its common fields."""

    prefix: str
    prompts: Callable[[Body], list[array[int]]]
    write: Callable[[Sequence[EngineRequest], Body, dict[str, Any]], dict[str, Any]]


class Pooled:
    """The prompts of one request; sends the answer when the last one is computed."""

    def __init__(self, kind: Kind, asks: Sequence[EngineRequest], body: Body, exchange: Outlet, created: int) -> None:
        self.kind = kind
        self.asks = asks
        self.body = body
        self.exchange = exchange
        self.created = created
        self.left = len(asks)

    def one_more(self, name: str) -> None:
        """One prompt is computed."""
        self.left -= 1
        if not self.left:
            tokens = sum(len(ask.prompt) for ask in self.asks)
            usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
            common = {"id": name, "object": "list", "created": self.created, "model": self.asks[0].model}
            common["usage"] = usage | {"prompt_tokens_details": None}
            self.exchange.answer(200, encode(self.kind.write(self.asks, self.body, common)))


class PooledReply(Reply):
    """One prompt of such a request."""

    __slots__ = ("pooled",)

    pooled: Pooled

    def close(self) -> None:
        """It is computed."""
        self.pooled.one_more(self.name)


def embedding(ask: EngineRequest) -> list[float]:
    """A vector of length 1, drawn from the prompt's tokens."""
    values = [_drawn(ask, place) * 2 - 1 for place in range(_WIDTH)]
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def _drawn(ask: EngineRequest, place: int = 0) -> float:
    """A number from 0 to 1."""
    return (mix(ask.speech.bits + place) >> 11) * 2.0**-53


# Prompts -------------------------------------------------------------------------------------------------------------


def _inputs(body: Body) -> list[array[int]]:
    if body.get("messages") is not None:
        return [converse(messages_of(body))]
    given = body.get("input")
    if given is None or given in ([], ""):
        raise missing("input", body)
    many = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    return [prompt_of({"prompt": each})[0] for each in many]


def _ranked(body: Body) -> list[array[int]]:
    return _pairs(_texts(body, "query"), _texts(body, "documents"))


def _scored(body: Body) -> list[array[int]]:
    names = (("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"), ("queries", "items"))
    first, second = next((pair for pair in names if pair[0] in body and pair[1] in body), names[0])
    return _pairs(_texts(body, first), _texts(body, second))


def _pairs(first: list[str], second: list[str]) -> list[array[int]]:
    """A text and another, read together; a lone text goes with each."""
    left = first * len(second) if len(first) == 1 else first
    return [complete(one + other) for one, other in zip(left, second, strict=False)]


def _texts(body: Body, name: str) -> list[str]:
    given = body.get(name)
    if given is None or given == []:
        raise missing(name, body)
    many = given if isinstance(given, list) else [given]
    return [_text(each) for each in many]


def _text(given: object) -> str:
    return str(given.get("text", "")) if isinstance(given, Mapping) else str(given)


# Answers -------------------------------------------------------------------------------------------------------------


def _rows(kind: str, field: str, value: Callable[[EngineRequest, Body], Any]) -> Any:
    """Writes a list of rows, one for each prompt."""

    def write(asks: Sequence[EngineRequest], body: Body, common: dict[str, Any]) -> dict[str, Any]:
        rows = [{"index": place, "object": kind, field: value(ask, body)} for place, ask in enumerate(asks)]
        return common | {"data": rows}

    return write


def _vector(ask: EngineRequest, body: Body) -> Any:
    vector = embedding(ask)
    packed = body.get("encoding_format") == "base64"
    return base64.b64encode(struct.pack(f"<{_WIDTH}f", *vector)).decode() if packed else vector


def _classes(asks: Sequence[EngineRequest], body: Body, common: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for place, ask in enumerate(asks):
        first = _drawn(ask)
        label = f"LABEL_{int(first < 0.5)}"
        rows.append({"index": place, "label": label, "probs": [first, 1 - first], "num_classes": CLASSES})
    return common | {"data": rows}


def _ranks(asks: Sequence[EngineRequest], body: Body, common: dict[str, Any]) -> dict[str, Any]:
    documents = _texts(body, "documents")
    rows: list[dict[str, Any]] = [
        {"index": place, "document": {"text": documents[place], "multi_modal": None}, "relevance_score": _drawn(ask)}
        for place, ask in enumerate(asks)
    ]
    rows.sort(key=lambda row: float(row["relevance_score"]), reverse=True)
    most, usage = int(body.get("top_n") or 0), common["usage"]
    counts = {name: usage[name] for name in ("prompt_tokens", "total_tokens")}
    results = rows[:most] if most else rows
    return {"id": common["id"], "model": common["model"], "usage": counts, "results": results}


EMBEDDINGS: Final = Kind("embd-", _inputs, _rows("embedding", "embedding", _vector))
POOLING: Final = Kind("pool-", _inputs, _rows("pooling", "data", _vector))
CLASSIFY: Final = Kind("classify-", _inputs, _classes)
SCORE: Final = Kind("score-", _scored, _rows("score", "score", lambda ask, body: _drawn(ask)))
RERANK: Final = Kind("score-", _ranked, _ranks)
PATHS: Final = {
    "/v1/embeddings": EMBEDDINGS, "/pooling": POOLING, "/classify": CLASSIFY, "/score": SCORE, "/v1/score": SCORE,
    "/rerank": RERANK, "/v1/rerank": RERANK, "/v2/rerank": RERANK,
}  # fmt: skip
