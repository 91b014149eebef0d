"""How much of the prompts a prefix cache could serve at best: one that never evicts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.units import ps
from poise.workload.table import Prefixes, Workload

Rows = NDArray[np.int64]


def reachable_hit_rate(workload: Workload, block_tokens: int = 16, warmup_s: float = 0.0) -> float:
    """Return the share of prompt tokens that an infinite cache finds, in [0, 1]; 0.0 for prompts without identity.

    The bound of a run's `prefix_hit_rate`, which counts the same tokens by the same rules, on engines with blocks of
    `block_tokens`; as there, requests before `warmup_s` fill the cache and do not count.
    """
    counted = workload.arrival >= ps(warmup_s)
    found = reachable_tokens(workload, block_tokens)[counted]
    return float(found.sum() / max(int(workload.prompt[counted].sum(dtype=np.int64)), 1))


def reachable_tokens(workload: Workload, block_tokens: int = 16) -> Rows:
    """Return for each request the prompt tokens that an infinite cache finds; 0 for prompts without identity.

    Requests are taken in the order of their rows, each finding what the prompts and outputs of the rows before it left.
    As in vLLM only whole blocks of `block_tokens` are found, and the last token of a prompt is always computed. Takes
    one pass over the extents.
    """
    if block_tokens < 1:
        raise TraceError(f"block_tokens is {block_tokens}; a block has at least one token")
    if workload.prefixes is None:
        return np.zeros(len(workload), dtype=np.int64)
    shared = np.minimum(shared_tokens(workload.prefixes), workload.prompt - 1)
    return shared // block_tokens * block_tokens


def shared_tokens(prefixes: Prefixes) -> Rows:
    """Return for each request how many tokens of its prompt earlier rows computed.

    A row computes its prompt and its output, but for the output's last token, which is only sampled.
    """
    rows, ids, outputs = prefixes.rows, prefixes.ids, prefixes.output
    if prefixes.next_id > 8 * (len(ids) + len(prefixes.offsets)):
        ids, outputs = _numbered(ids, outputs)
    names = 1 + max(int(ids.max(initial=-1)), -1 if outputs is None else int(outputs.max(initial=-1)))
    seen = _first(names, ids, rows)[ids] < rows
    ends = prefixes.ends.astype(np.int64)
    if outputs is not None:
        named = np.flatnonzero(outputs >= 0)
        answered = (_first(names, outputs[named], named)[ids] < rows) & ~seen
        ends[answered] -= 1
        seen |= answered
    shared = np.zeros(len(prefixes.offsets) - 1, dtype=np.int64)
    # An id names its whole prefix and ends ascend within a row: the last extent seen before is the longest.
    shared[rows[seen]] = ends[seen]
    return shared


def _first(names: int, ids: NDArray[Any], rows: Rows) -> Rows:
    """The first of the ascending `rows` that has each id; a row behind them all for an id that none has."""
    first = np.full(names, np.iinfo(np.int64).max)
    # Of several writes to one place the last one stays: backwards, that is the first row.
    first[ids[::-1]] = rows[::-1]
    return first


def _numbered(ids: NDArray[Any], outputs: NDArray[Any] | None) -> tuple[Rows, Rows | None]:
    """Hashes as small numbers; costs a sort, which ids that are small already do without."""
    both = ids if outputs is None else np.concatenate([ids, outputs[outputs >= 0]])
    _, numbers = np.unique(both, return_inverse=True)
    if outputs is None:
        return numbers, None
    known = np.full(len(outputs), -1, dtype=np.int64)
    known[outputs >= 0] = numbers[len(ids) :]
    return numbers[: len(ids)], known
