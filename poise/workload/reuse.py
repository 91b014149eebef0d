"""How much of the prompts a prefix cache could serve at best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.workload.table import Prefixes, Workload


def reachable_hit_rate(workload: Workload, block_tokens: int = 16) -> float:
    """Return the share of prompt blocks that an infinite cache finds, in [0, 1]; 0.0 for prompts without identity.

    Requests are taken in the order of their rows, each finding what the rows before it left. A prompt of p tokens has
    ⌈p / `block_tokens`⌉ blocks; of a shared prefix only whole blocks count, unless the whole prompt is shared. On
    Mooncake's traces in 512-token blocks this is the share of blocks that extend an unbroken, already seen prefix.
    """
    if block_tokens < 1:
        raise TraceError(f"block_tokens is {block_tokens}; a block has at least one token")
    if workload.prefixes is None or len(workload) == 0:
        return 0.0
    prompt = workload.prompt.astype(np.int64)
    shared = shared_tokens(workload.prefixes)
    blocks = -(-prompt // block_tokens)
    found = np.where(shared >= prompt, blocks, shared // block_tokens)
    return float(found.sum() / blocks.sum())


def shared_tokens(prefixes: Prefixes) -> NDArray[np.int64]:
    """Return for each request how many tokens of its prompt some earlier row's prompt (and output) starts with."""
    rows, ids = prefixes.rows, prefixes.ids
    seen_ids, seen_rows = ids, rows
    if prefixes.output is not None:
        named = np.flatnonzero(prefixes.output >= 0)
        seen_ids = np.concatenate([ids, prefixes.output[named]])
        seen_rows = np.concatenate([rows, named])
    _, numbered = np.unique(seen_ids, return_inverse=True)
    first = np.full(numbered.max(initial=-1) + 1, len(prefixes.offsets), dtype=np.int64)
    np.minimum.at(first, numbered, seen_rows)
    shared = np.zeros(len(prefixes.offsets) - 1, dtype=np.int64)
    seen = first[numbered[: len(ids)]] < rows
    # An id names its whole prefix, so the longest extent seen before is the answer; the ones before it need no look.
    np.maximum.at(shared, rows[seen], prefixes.ends[seen])
    return shared
