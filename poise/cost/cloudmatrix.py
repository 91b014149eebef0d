"""Figures of a supernode of 384 NPUs, as published, and the arithmetic between them.

"Serving Large Language Models on Huawei CloudMatrix384" (arXiv 2506.12708): DeepSeek-R1 in INT8 on Ascend 910C, each of
two dies. Decoding spreads 320 experts over as many dies, one each; dispatch and combine are all-to-all on the fabric.
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

import numpy as np

from poise.core.errors import UserError

DIES = 2
"""Dies of one NPU, each a rank of expert parallelism."""


class Experts(NamedTuple):
    """What the dies of a decode instance hold, one each."""

    routed: int = 256
    shared: int = 32
    redundant: int = 32

    @property
    def npus(self) -> float:
        """NPUs of an instance."""
        return sum(self) / DIES


class Decode(NamedTuple):
    """A measured point: requests of an NPU, their tokens of context half-way, and tokens per second of an NPU."""

    batch: int
    context: int
    rate: float


DECODES = (
    Decode(128, 1536, 2733), Decode(112, 2176, 2360), Decode(96, 4224, 1943), Decode(24, 4224, 974),
    Decode(8, 4224, 538),
)  # fmt: skip
"""Published points: prompt and output of 1k and 1k, 2k and 256, and 4k and 256 under limits of 50, 30 and 15 ms."""

_ENDS = {"dispatch": (116e-6, 152e-6), "combine": (118e-6, 149e-6)}
_LEAST, _MOST = 8, 256


def rate(batch: float, tpot_s: float) -> float:
    """Tokens per second of an NPU that decodes a batch, each request a token every `tpot_s`."""
    return batch / tpot_s


def tpot_s(point: Decode) -> float:
    """The time per output token of a measured point."""
    return point.batch / point.rate


class Law(NamedTuple):
    """Seconds of a step, of each request in it and of each of their tokens of context; off: the most that a published
    point is off, as a part of it."""

    step_s: float
    request_s: float
    token_s: float
    off: float


def law() -> Law:
    """The law of steps that is nearest to all published points, by least squares of the parts that they are off."""
    rows = np.array([[1.0, each.batch, each.batch * each.context] for each in DECODES])
    times = np.array([tpot_s(each) for each in DECODES])
    found, *_ = np.linalg.lstsq(rows / times[:, None], np.ones(len(times)), rcond=None)
    step, request, token = map(float, found)
    return Law(step, request, token, float(np.abs(rows @ found / times - 1).max()))


def exchange_s(kind: str, ranks: int) -> float:
    """Seconds of `dispatch` or `combine` over `ranks` ranks: the published ends, 8 and 256, joined in log ranks.

    Beyond 256 the line continues, as to the 320 of a decode instance; below 8 nothing was published.
    """
    if kind not in _ENDS:
        raise UserError(f"{kind!r} is no exchange; give one of {', '.join(_ENDS)}")
    if ranks < _LEAST:
        raise UserError(f"{ranks} ranks: nothing is published below {_LEAST}; give more")
    first, last = _ENDS[kind]
    return first + (last - first) * log2(ranks / _LEAST) / log2(_MOST / _LEAST)


def reuse_gain(cached: float, fixed: float) -> float:
    """How many times as fast prefill is where `cached` of each prompt is found: 1/(fixed + (1 − fixed)·(1 − cached)).

    fixed: the part of its time that does not go by uncached tokens.
    """
    if not 0 <= cached < 1 or not 0 <= fixed <= 1:
        raise UserError(f"cached {cached} and fixed {fixed} are parts; give 0 up to 1")
    return 1 / (fixed + (1 - fixed) * (1 - cached))
