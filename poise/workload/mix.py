"""Requests of several classes, lengths that change on the way, and lengths that are cut: each returns a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload.draw import count, positive, stream
from poise.workload.lengths import Spec, length, tokens
from poise.workload.rows import later
from poise.workload.table import Prefixes, Workload

Lengths = NDArray[np.int32]

MOST = 2**31 - 1
"""The largest length and tenant that a column holds."""


@dataclass(frozen=True, slots=True)
class RequestClass:
    """One class of requests; what is None is that of the workload. share: of all requests, beside other shares.

    prompt_tokens, output_tokens: a number or a distribution.  deadline_s, timeout_s: seconds after arrival.
    priority: lower is served first.  tenant: whose requests they are (default: the place of the class, from 0).
    """

    share: float = 1.0
    prompt_tokens: Spec | None = None
    output_tokens: Spec | None = None
    deadline_s: float | None = None
    timeout_s: float | None = None
    priority: int | None = None
    tenant: int | None = None


def classes(workload: Workload, kinds: Mapping[str, RequestClass], *, seed: int = 0) -> Workload:
    """Return `workload` with every request drawn into one of the classes, and with what its class says of it.

    Every class has streams of chance of its own, so that a class more leaves the lengths of the others as they are.
    """
    if not kinds:
        raise ScenarioError("there is no class; name one or more, as in {chat: {share: 0.7, prompt_tokens: 500}}")
    if workload.endless is not None:
        return later(workload, lambda rows: classes(rows, kinds, seed=seed))
    shares = np.array([positive(f"{name}.share", each.share) for name, each in kinds.items()])
    rows, each = len(workload), list(kinds.values())
    of = stream(seed, "classes").choice(len(each), rows, p=shares / shares.sum())
    found: dict[str, Any] = {
        name: _drawn(name, getattr(workload, name), of, kinds, seed) for name in ("prompt", "output")
    }
    for name in ("deadline", "timeout"):
        given = [getattr(kind, f"{name}_s") for kind in each]
        found[name] = _chosen(getattr(workload, name), of, [_instant(name, one) for one in given], np.int64)
    found["priority"] = _chosen(workload.priority, of, [kind.priority for kind in each], np.int16)
    owners = [
        at if kind.tenant is None else count("tenant", kind.tenant, least=0, most=MOST) for at, kind in enumerate(each)
    ]
    return replace(workload, **found, tenant=np.array(owners, np.int32)[of])


def _drawn(name: str, own: Lengths, of: NDArray[np.int64], kinds: Mapping[str, RequestClass], seed: int) -> Lengths:
    """The lengths of a column, of each class by its own distribution."""
    found = own.copy()
    for at, (kind, each) in enumerate(kinds.items()):
        spec = getattr(each, f"{name}_tokens")
        if spec is not None:
            purpose = f"{name}_tokens of {kind}"
            drawn = tokens(length(spec, f"{kind}.{name}_tokens"), stream(seed, purpose), len(own), purpose)
            found = np.where(of == at, drawn, found).astype(np.int32)
    return found


def _instant(name: str, seconds: float | None) -> int | None:
    return None if seconds is None else round(positive(f"{name}_s", seconds) * SECOND)


def _chosen(own: NDArray[Any] | None, of: NDArray[np.int64], given: list[int | None], kind: Any) -> Any:
    """A column with the values that classes give; None where neither they nor the workload give one."""
    if all(each is None for each in given):
        return own
    base = np.zeros(len(of), kind) if own is None else own
    known = np.array([each is not None for each in given])[of]
    return np.where(known, np.array([each or 0 for each in given])[of], base).astype(kind)


def shift(workload: Workload, *, after: float = 0.5, prompt: float = 1.0, output: float = 1.0) -> Workload:
    """Return `workload` whose prompts and outputs are so many times as long from the share `after` of requests on."""
    if workload.endless is not None:
        return later(workload, lambda rows: shift(rows, after=after, prompt=prompt, output=output))
    positive("after", after, zero=True)
    late = np.arange(len(workload)) >= int(after * len(workload))
    changed = [
        _times(name, column, late, positive(name, by))
        for name, column, by in (("prompt", workload.prompt, prompt), ("output", workload.output, output))
    ]
    return _resized(workload, *changed)


def _times(name: str, column: Lengths, late: NDArray[np.bool_], factor: float) -> Lengths:
    """Lengths, those of late rows times a factor."""
    longest = int(column[late].max(initial=1))
    if longest * factor > MOST:
        raise ScenarioError(
            f"{name} is {factor:g}, and {longest} tokens times that are too many; give a smaller factor"
        )
    return np.where(late, np.maximum(np.rint(column * factor), 1), column).astype(np.int32)


def cut(workload: Workload, *, prompt_tokens: int | None = None, output_tokens: int | None = None) -> Workload:
    """Return `workload` whose longer prompts and outputs end after so many tokens; None leaves them as they are."""
    if workload.endless is not None:
        return later(workload, lambda rows: cut(rows, prompt_tokens=prompt_tokens, output_tokens=output_tokens))
    changed = [
        column if most is None else np.minimum(column, count(name, most, most=MOST)).astype(np.int32)
        for name, column, most in (
            ("prompt_tokens", workload.prompt, prompt_tokens), ("output_tokens", workload.output, output_tokens),
        )
    ]  # fmt: skip
    return _resized(workload, *changed)


def _resized(workload: Workload, prompt: Lengths, output: Lengths) -> Workload:
    """Other lengths; of prompts' known prefixes those stay that still fit, and no output is part of a later prompt."""
    known = workload.prefixes
    if known is not None:
        kept = known.ends <= prompt[known.rows]
        counts = np.bincount(known.rows[kept], minlength=len(workload))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        known = Prefixes(offsets, known.ids[kept], known.ends[kept])
    return replace(workload, prompt=prompt, output=output, prefixes=known)
