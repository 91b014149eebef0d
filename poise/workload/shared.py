"""Prompts that share beginnings: a tree of prefixes put before the prompts of any workload without identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import count, stream
from poise.workload.lengths import LONGEST, Spec, Zipf, length, tokens
from poise.workload.rows import later
from poise.workload.table import Prefixes, Workload

MOST_GROUPS, MOST_DEPTH = 10**7, 1000
"""Prefixes and levels beyond which a typing mistake is likelier than intent; each takes memory or time of its own."""


def shared_prefixes(
    base: Workload,
    *,
    groups: int,
    prefix_tokens: Spec,
    zipf: float = 1.0,
    depth: int = 1,
    tenants: int = 0,
    seed: int = 0,
) -> Workload:
    """Return `base` with a shared prefix before each prompt: prompt = prefix of the request's group + its own prompt.

    Each request draws one of `groups` groups with P(rank k) ∝ k^−`zipf` (0: all equal). A group's prefix has
    `prefix_tokens` tokens (a number or a distribution, drawn once a group) in `depth` extents: level d of the tree
    has ⌈groups^(d/depth)⌉ nodes, each with a depth-th of the tokens, and neighbouring ranks share parents. Depth 1 is
    a flat set of system prompts; depth 3 might be organisation, application, document. tenants: that many have the
    groups by turns, and a request is of the tenant of its group (0: tenants stay as they are). ScenarioError when
    `base` has identity.
    """
    groups, depth = count("groups", groups, most=MOST_GROUPS), count("depth", depth, most=MOST_DEPTH)
    tenants = count("tenants", tenants, least=0, most=MOST_GROUPS)
    if base.endless is not None:
        given: dict[str, Any] = {"groups": groups, "prefix_tokens": prefix_tokens, "zipf": zipf, "depth": depth}
        given["tenants"] = tenants
        return later(base, lambda rows: shared_prefixes(rows, **given, seed=seed))
    if base.prefixes is not None:
        raise ScenarioError("shared_prefixes needs prompts without identity; this workload already has prefixes")
    rows = len(base)
    group = Zipf(zipf, groups).draw(stream(seed, "prefix group"), rows).astype(np.int64) - 1
    ids, ends = _tree(groups, prefix_tokens, depth, seed)
    longest = int(ends[:, -1].max()) + int(base.prompt.max(initial=0))
    if longest > LONGEST:
        raise ScenarioError(f"prefix_tokens makes prompts of {longest} tokens; {LONGEST} is the most")
    prefixes = Prefixes(
        offsets=np.arange(rows + 1, dtype=np.int64) * depth, ids=ids[group].ravel(), ends=ends[group].ravel()
    )
    facts = {"groups": groups, "zipf": zipf, "depth": depth, "seed": seed}
    prompt = (base.prompt + ends[group, -1]).astype(np.int32)
    tenant = (group % tenants).astype(np.int32) if tenants else base.tenant
    return replace(
        base, prompt=prompt, prefixes=prefixes, tenant=tenant, source={**base.source, "shared_prefixes": facts}
    )


def _tree(groups: int, prefix_tokens: Spec, depth: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Ids and ends of the extents of every group's prefix, each of shape (groups, depth)."""
    distribution = length(prefix_tokens, "prefix_tokens")
    widths = [int(np.ceil(round(groups ** (level / depth), 9))) for level in range(1, depth)] + [groups]
    ids = np.empty((groups, depth), dtype=np.int64)
    sizes = np.empty((groups, depth), dtype=np.int64)
    node, below = np.arange(groups), groups
    for level in reversed(range(depth)):
        # Each level's node is found from the one below it, so that nodes with equal children have equal parents.
        node, below = node * widths[level] // below, widths[level]
        drawn = tokens(distribution, stream(seed, f"prefix level {level}"), widths[level], "prefix_tokens")
        ids[:, level] = sum(widths[:level]) + node
        sizes[:, level] = np.maximum(drawn // depth, 1)[node]
    return ids, np.cumsum(sizes, axis=1).astype(np.int32)
