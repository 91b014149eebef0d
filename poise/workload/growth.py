"""Prompts that grow: each request begins with the prompt of the one it waits for, and with that one's output."""

from __future__ import annotations

import numpy as np

from poise.core.errors import TraceError
from poise.workload.rows import Rows
from poise.workload.table import Prefixes, Workload


def grown(workload: Workload) -> Prefixes:
    """Return the identity of prompts that each begin with those before them; every request waits for at most one.

    A prompt that is shorter than the one before it restarts. An output that does not fit into the next prompt (it
    was left out of it, or cut) is not found there.
    """
    parent = _parents(workload)
    prompt, output = workload.prompt.astype(np.int64).tolist(), workload.output.astype(np.int64).tolist()
    chains: list[list[tuple[int, int]]] = []
    for row, before in enumerate(parent.tolist()):
        chain: list[tuple[int, int]] = []
        if before >= 0 and prompt[row] >= prompt[before]:
            context = prompt[before] + output[before]
            chain = [*chains[before], *([(2 * before + 1, context)] if context <= prompt[row] else [])]
        # A prompt as long as the conversation before it is identical; its own id would end at the same token.
        own = [] if chain and chain[-1][1] == prompt[row] else [(2 * row, prompt[row])]
        chains.append(chain + own)
    sizes = [len(chain) for chain in chains]
    flat = np.array([extent for chain in chains for extent in chain], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Prefixes(offsets, flat[:, 0], flat[:, 1].astype(np.int32), 2 * np.arange(len(workload)) + 1)


def _parents(workload: Workload) -> Rows:
    """The request that each one waits for, -1 for none."""
    parent = np.full(len(workload), -1, dtype=np.int64)
    if workload.after_offsets is None or workload.after_ids is None:
        return parent
    counts = np.diff(workload.after_offsets)
    if counts.max(initial=0) > 1:
        raise TraceError("a request waits for several others, so its prompt cannot grow out of one")
    parent[counts > 0] = workload.after_ids
    return parent
