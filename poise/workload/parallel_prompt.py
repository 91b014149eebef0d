"""PARALLELPROMPT: prompts that ask for the same of several items, as one request or as one request for each item.

A tenth of logged prompts hide such a list (arXiv 2506.18728); its schema is a template, a context that all items share,
and the items.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import positive, stream
from poise.workload.lengths import LONGEST, Spec, length, tokens
from poise.workload.rows import later
from poise.workload.table import Prefixes, Workload

Way = Literal["serial", "parallel", "unshared"]
WAYS: tuple[Way, ...] = ("serial", "parallel", "unshared")

_ITEMS: dict[str, Any] = {"uniform": {"low": 2, "high": 10}}


def fan_out(
    base: Workload,
    way: Way,
    *,
    share: float = 0.103,
    items: Spec | None = None,
    context_tokens: Spec = 400,
    item_tokens: Spec = 40,
    output_tokens: Spec = 60,
    seed: int = 0,
) -> Workload:
    """Return `base` with the share `share` of its requests asking for several items each.

    way: `serial` is one request with all items, whose answers follow one another; `parallel` one request for each item,
    whose prompts begin with the same context; `unshared` the same without identity, so that none is found in a cache.
    items: how many (2 to 10).  context_tokens: template and context.  item_tokens, output_tokens: of each item.
    Numbers or distributions; the draws are the same in every way. Requests of one prompt are one program, the others
    none. The published share is 10.3 %; the other defaults are ours.
    """
    if way not in WAYS:
        raise ScenarioError(f"way is {way!r}; give one of {', '.join(WAYS)}")
    if positive("share", share) > 1:
        raise ScenarioError(f"share is {share}; it must be in (0, 1]")
    if base.endless is not None:
        given: dict[str, Any] = {"share": share, "items": items, "context_tokens": context_tokens, "seed": seed}
        given |= {"item_tokens": item_tokens, "output_tokens": output_tokens}
        return later(base, lambda rows: fan_out(rows, way, **given))
    if base.concurrency or base.after_offsets is not None or base.session is not None or base.prefixes is not None:
        raise ScenarioError("fan_out needs open load without sessions or prefixes; build it from poisson, say")
    chosen = np.flatnonzero(stream(seed, "fan-out").random(len(base)) < share)
    number = _drawn(_ITEMS if items is None else items, "items", len(chosen), seed)
    context = _drawn(context_tokens, "context_tokens", len(chosen), seed)
    total = int(number.sum())
    lengths = {"item_tokens": item_tokens, "output_tokens": output_tokens}
    sizes = [_drawn(spec, name, total, seed) for name, spec in lengths.items()]
    parent = np.repeat(np.arange(len(chosen)), number)
    if way == "serial":
        item, output = (np.bincount(parent, each, len(chosen)).astype(np.int64) for each in sizes)
        parent = np.arange(len(chosen))
    else:
        item, output = sizes
    return _with(base, chosen, parent, context, context[parent] + item, output, shared=way == "parallel", label=way)


def _drawn(spec: Spec, name: str, rows: int, seed: int) -> NDArray[np.int64]:
    return tokens(length(spec, name), stream(seed, f"fan-out {name}"), rows, name).astype(np.int64)


def _with(
    base: Workload, chosen: NDArray[np.int64], parent: NDArray[np.int64], context: NDArray[np.int64],
    prompt: NDArray[np.int64], output: NDArray[np.int64], *, shared: bool, label: str,
) -> Workload:  # fmt: skip
    """`base` with the rows `chosen` replaced by children; row i of these belongs to `chosen[parent[i]]`."""
    if max(prompt.max(initial=0), output.max(initial=0)) > LONGEST:
        raise ScenarioError(f"the items make a prompt or an answer of more than {LONGEST} tokens; ask for fewer")
    rows = np.arange(len(base))
    kept = np.setdiff1d(rows, chosen)
    place = np.concatenate([kept, chosen[parent]])
    order = np.argsort(place, kind="stable")
    place = place[order]
    session = np.concatenate([np.full(len(kept), -1), parent])[order]
    made = Workload(
        base.arrival[place],
        np.concatenate([base.prompt[kept], prompt])[order].astype(np.int32),
        np.concatenate([base.output[kept], output])[order].astype(np.int32),
        session=session.astype(np.int32),
        retry=base.retry,
        source={**base.source, "fan_out": {"way": label, "prompts": len(chosen), "requests": len(place)}},
    )
    if shared:
        mine = session >= 0
        offsets = np.concatenate([[0], np.cumsum(mine)]).astype(np.int64)
        ids = session[mine].astype(np.int64)
        made.prefixes = Prefixes(offsets, ids, context[ids].astype(np.int32))
    for name in ("tenant", "priority", "deadline", "timeout", "lora", "model"):
        column = getattr(base, name)
        if column is not None:
            setattr(made, name, column[place])
    made.models = base.models
    return made
