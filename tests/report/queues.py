"""M/M/1 without a simulator: sojourn times by Lindley's recursion, whose distribution is known."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import FINISHED, Records, ReplicaStats, Run
from poise.core.units import SECOND

Floats = NDArray[np.floating[Any]]

WARM = 2000
"""Requests that are left out, so that the queue is in its steady state."""


def mm1(seed: int, requests: int, load: float, *, others: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Stamps, sojourn times, and those under services of which a share `others` was drawn anew; seconds.

    One request a second, services of mean `load`: sojourn times are exponential with mean load / (1 − load).
    """
    chance = np.random.default_rng(seed)
    gaps, services, fresh = (chance.exponential(mean, requests + WARM) for mean in (1.0, load, load))
    changed = np.where(chance.random(requests + WARM) < others, fresh, services)
    stamps = np.cumsum(gaps)[WARM:]
    first, second = (_sojourns(gaps, each)[WARM:] for each in (services, changed))
    return stamps - stamps[0], first, second


def _sojourns(gaps: Floats, services: Floats) -> Floats:
    walk = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    return np.asarray(walk - np.minimum.accumulate(walk) + services)


def quantile(load: float, share: float) -> float:
    """The sojourn time that a share of requests does not exceed."""
    return -math.log(1 - share) * load / (1 - load)


def run_of(stamps: Floats, sojourns: Floats) -> Run:
    """A run whose requests arrive at `stamps`, all finish, and last so long from end to end."""
    arrived = np.rint(stamps * SECOND).astype(np.int64)
    ended = arrived + np.rint(sojourns * SECOND).astype(np.int64)
    records = Records(len(stamps))
    for name, instants in (
        ("arrived_at", arrived), ("dispatched_at", arrived), ("first_token_at", ended), ("ended_at", ended)
    ):  # fmt: skip
        setattr(records, name, array("q", instants.tobytes()))
    records.status = array("b", [FINISHED]) * len(stamps)
    records.output_tokens = array("i", [1]) * len(stamps)
    return Run(records, [ReplicaStats()], ended_at=int(ended.max()), offered=len(stamps))


def band(trials: int, chance: float, confidence: float = 0.999) -> range:
    """The numbers of hits in `trials` within which chance keeps, where each hit has probability `chance`."""
    each = [math.comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits) for hits in range(trials + 1)]
    up_to = np.cumsum(each)
    tail = (1 - confidence) / 2
    return range(int(np.searchsorted(up_to, tail)), int(np.searchsorted(up_to, 1 - tail)) + 1)
