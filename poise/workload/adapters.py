"""Adapters (LoRA) that requests name: how popular each is, and of which rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from poise.core.errors import ScenarioError
from poise.workload.draw import count as _count
from poise.workload.draw import stream
from poise.workload.lengths import Zipf
from poise.workload.rows import later
from poise.workload.table import Workload

MOST_ADAPTERS = 10**6
"""Adapters beyond which a typing mistake is likelier than intent."""

MOST_RANK = 4096


def adapters(
    base: Workload,
    *,
    count: int = 0,
    rank: int | Sequence[int] = 16,
    zipf: float = 1.0,
    share: float = 1.0,
    seed: int = 0,
) -> Workload:
    """Return `base` with an adapter for a `share` of its requests, and the rank of each adapter.

    count: adapters, of which each request draws one with P(number k) ∝ (k + 1)^−`zipf` (0: all equal); requests of one
    session have the same. 0: the workload has adapters already, and only their ranks are set.  rank: of all adapters,
    or a list that they have by turns.
    """
    if base.endless is not None:
        given: dict[str, Any] = {"count": count, "rank": rank, "zipf": zipf, "share": share}
        return later(base, lambda rows: adapters(rows, **given, seed=seed))
    if not count and base.lora is None:
        raise ScenarioError("count is missing, and the requests name no adapters; give how many there are, as in 50")
    if count and base.lora is not None:
        raise ScenarioError(f"count is {count}, but the requests name adapters already; leave count out")
    lora = _drawn(base, count, zipf, share, seed) if count else base.lora
    assert lora is not None
    number = count or int(lora.max(initial=-1)) + 1
    ranks = _ranks(rank)
    facts = {"count": number, "rank": rank if isinstance(rank, int) else list(rank), "zipf": zipf, "share": share}
    return replace(
        base,
        lora=lora,
        adapter_ranks=tuple(ranks[each % len(ranks)] for each in range(number)),
        source={**base.source, "adapters": {**facts, "seed": seed}},
    )


def _drawn(base: Workload, number: int, zipf: float, share: float, seed: int) -> Any:
    """The adapter of each request, -1 for none; that of a session is its first request's."""
    _count("count", number, most=MOST_ADAPTERS)
    if not 0 < share <= 1:
        raise ScenarioError(f"share {share:g} is no part of the requests; give above 0, up to 1")
    rows = len(base)
    drawn = Zipf(zipf, number).draw(stream(seed, "adapter"), rows).astype(np.int32) - 1
    drawn[stream(seed, "adapter share").random(rows) >= share] = -1
    if base.session is not None:
        sessions = base.session
        _, first, of = np.unique(sessions, return_index=True, return_inverse=True)
        drawn = np.where(sessions >= 0, drawn[first[of]], drawn)
    return drawn.astype(np.int32)


def _ranks(rank: int | Sequence[int]) -> list[int]:
    ranks = [rank] if isinstance(rank, int) else list(rank)
    if not ranks:
        raise ScenarioError("rank is an empty list; give a rank, as in 16, or some, as in [8, 64]")
    return [_count("rank", each, most=MOST_RANK) for each in ranks]
