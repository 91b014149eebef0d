"""Generated workloads: when requests arrive, with lengths drawn from distributions.

Every column has its own stream of chance, so changing one parameter leaves the draws of the other columns as they
were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import NEVER, SECOND
from poise.workload.draw import count, positive, stream
from poise.workload.lengths import LONGEST, Spec, length, tokens
from poise.workload.table import Workload

Floats = NDArray[np.float64]

PROMPT_TOKENS, OUTPUT_TOKENS = 512, 128
"""Lengths where none are given."""

MOST_ROWS = 10**8
"""Requests beyond which a typing mistake is likelier than intent; so many take a quarter of an hour to simulate."""

MOST_CV = 100
"""The largest coefficient of variation of gaps; Gamma draws of a smaller shape are below the least float."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Prompt and output lengths that belong together; generators draw whole pairs, with replacement."""

    prompt: NDArray[np.int32]
    output: NDArray[np.int32]

    def __post_init__(self) -> None:
        if len(self.prompt) != len(self.output) or len(self.prompt) == 0:
            raise ScenarioError(
                f"lengths has {len(self.prompt)} prompts and {len(self.output)} outputs; give equally many"
            )
        for name, column in (("prompt", self.prompt), ("output", self.output)):
            if np.min(column) < 1 or np.max(column) > LONGEST:
                raise ScenarioError(f"lengths: {name} lies outside 1 to {LONGEST} tokens; drop such pairs")


class Options(TypedDict, total=False):
    """What every generator takes besides its arrivals.

    prompt_tokens, output_tokens: a number or a distribution (defaults 512 and 128 tokens).
    lengths: pairs to draw both from, in place of the two.
    max_tokens: the client's limit; longer outputs are cut to it.
    deadline_s, timeout_s: seconds after arrival.  priority: lower is served first.
    retry: how often a refused or lost request is sent again.
    seed: whole number of at least 0 (default 0).
    """

    prompt_tokens: Spec
    output_tokens: Spec
    lengths: Pairs
    max_tokens: int
    deadline_s: float
    timeout_s: float
    priority: int
    retry: int
    seed: int


def poisson(
    rate: float, *, requests: int | None = None, duration_s: float | None = None, **options: Unpack[Options]
) -> Workload:
    """Return Poisson arrivals at `rate` per second: `requests` of them, or those within `duration_s`, or the fewer.

    With neither they have no end: the simulation's `until` gives it.
    """
    return gamma(rate, 1.0, requests=requests, duration_s=duration_s, **options)


def gamma(
    rate: float, cv: float, *, requests: int | None = None, duration_s: float | None = None, **options: Unpack[Options]
) -> Workload:
    """Return arrivals at `rate` per second with Gamma gaps of coefficient of variation `cv` (1: Poisson).

    Shape 1/cv² and scale cv²/rate, as BurstGPT (arXiv 2401.17644) and ServeGen fit them; `cv` 0 gives equal gaps.
    """
    rate, cv = positive("rate", rate), positive("cv", cv, zero=True)
    if requests is None and duration_s is None:
        first = gamma(rate, cv, requests=1, **options)
        return endless(first, lambda seconds: gamma(rate, cv, duration_s=seconds, **options))
    gaps = gaps_of(cv, stream(options.get("seed", 0), "arrival"))
    arrival = until(lambda rows: gaps(rows) / rate, rate, requests, duration_s)
    return filled(arrival, options, {"kind": "gamma" if cv != 1 else "poisson", "rate": rate, "cv": cv})


def gaps_of(cv: float, rng: np.random.Generator) -> Callable[[int], Floats]:
    """A function that draws n Gamma gaps of mean 1 and coefficient of variation `cv`, at most `MOST_CV`."""
    if cv > MOST_CV:
        raise ScenarioError(f"cv is {cv:g}; it must be at most {MOST_CV}, above which nearly all gaps round to 0")
    if cv == 0:
        return np.ones
    if cv == 1:
        return rng.standard_exponential
    return lambda rows: rng.standard_gamma(cv**-2, rows) * cv**2


def constant(
    gap_s: float, *, requests: int | None = None, duration_s: float | None = None, **options: Unpack[Options]
) -> Workload:
    """Return one request every `gap_s` seconds, the first at 0."""
    positive("gap_s", gap_s)
    if requests is None and duration_s is None:
        first = constant(gap_s, requests=1, **options)
        return endless(first, lambda seconds: constant(gap_s, duration_s=seconds, **options))
    limit = _rows(requests, duration_s, 1 / gap_s)
    arrival: Floats = np.arange(limit, dtype=np.float64) * gap_s
    if duration_s is not None:
        arrival = arrival[arrival < duration_s]
    return filled(arrival, options, {"kind": "constant", "gap_s": gap_s})


def closed(concurrency: int, requests: int, **options: Unpack[Options]) -> Workload:
    """Return a closed load: `requests` in all, `concurrency` at a time; the next one enters when one ends."""
    concurrency = count("concurrency", concurrency)
    workload = filled(np.zeros(_rows(requests, None, 0)), options, {"kind": "closed", "concurrency": concurrency})
    workload.concurrency = min(concurrency, len(workload))
    return workload


def all_at_once(requests: int, **options: Unpack[Options]) -> Workload:
    """Return `requests` that all arrive at 0: an offline batch."""
    return filled(np.zeros(_rows(requests, None, 0)), options, {"kind": "all_at_once"})


def endless(first: Workload, draw: Callable[[float], Workload]) -> Workload:
    """No rows yet: how many there are is known when the simulation's end is. `first` had its options checked."""
    return Workload(first.arrival[:0], first.prompt[:0], first.output[:0], endless=draw, source=first.source)


def _rows(requests: int | None, duration_s: float | None, rate: float) -> int:
    """Rows to draw: the requested number, or more than are expected within the duration."""
    if requests is None and duration_s is None:
        raise ScenarioError(
            "requests and duration_s are both missing; give one of them, to say where the arrivals stop"
        )
    if duration_s is None:
        return count("requests", requests or 0, most=MOST_ROWS)
    expected = positive("duration_s", duration_s) * rate
    enough = count("duration_s times the rate", int(expected + 10 * expected**0.5 + 10), most=MOST_ROWS)
    return enough if requests is None else min(enough, count("requests", requests))


def until(gaps: Callable[[int], Floats], rate: float, requests: int | None, duration_s: float | None) -> Floats:
    """Running sums of `gaps`, which come at `rate`: `requests` of them, those below `duration_s`, or the fewer."""
    rows = _rows(requests, duration_s, rate)
    arrival: Floats = np.cumsum(gaps(rows))
    if duration_s is None:
        return arrival
    while arrival[-1] < duration_s and (requests is None or len(arrival) < requests):
        more = gaps(rows if requests is None else min(rows, requests - len(arrival)))
        # One running sum, so that the rows drawn do not depend on how many were drawn at a time.
        arrival = np.concatenate([arrival, np.cumsum(np.concatenate([arrival[-1:], more]))[1:]])
    return arrival[arrival < duration_s]


def filled(arrival: Floats, options: Options, source: dict[str, Any]) -> Workload:
    """The columns that every generator fills; `arrival` in seconds."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"{source['kind']}() got an unexpected keyword argument {unknown[0]!r}")
    rows, seed = len(arrival), options.get("seed", 0)
    if rows == 0:
        raise ScenarioError("duration_s is too short: no request arrives in it; make it longer or give requests")
    if arrival[-1] * SECOND >= NEVER:
        raise ScenarioError(
            f"the arrivals last {arrival[-1]:.3g} s; a workload may last 53 days at most; raise the rate"
        )
    prompt, output = _lengths(rows, options, seed)
    if "max_tokens" in options:
        output = np.minimum(output, count("max_tokens", options["max_tokens"], most=LONGEST)).astype(np.int32)
    return Workload(
        arrival=np.rint(arrival * SECOND).astype(np.int64),
        prompt=prompt,
        output=output,
        max_tokens=_same(rows, options.get("max_tokens"), np.int32),
        priority=_same(rows, _priority(options.get("priority")), np.int16),
        deadline=_same(rows, _instant("deadline_s", options.get("deadline_s")), np.int64),
        timeout=_same(rows, _instant("timeout_s", options.get("timeout_s")), np.int64),
        retry=count("retry", options.get("retry", 0), least=0),
        source={**source, "requests": rows, "seed": seed},
    )


def _lengths(rows: int, options: Options, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    pairs = options.get("lengths")
    if pairs is None:
        prompt = length(options.get("prompt_tokens", PROMPT_TOKENS), "prompt_tokens")
        output = length(options.get("output_tokens", OUTPUT_TOKENS), "output_tokens")
        drawn = tokens(prompt, stream(seed, "prompt_tokens"), rows, "prompt_tokens")
        return drawn, tokens(output, stream(seed, "output_tokens"), rows, "output_tokens")
    if "prompt_tokens" in options or "output_tokens" in options:
        raise ScenarioError("lengths is given beside prompt_tokens or output_tokens; give one or the other")
    at = (stream(seed, "lengths").random(rows) * len(pairs.prompt)).astype(np.int64)
    return pairs.prompt[at].astype(np.int32), pairs.output[at].astype(np.int32)


def _instant(name: str, seconds: float | None) -> int | None:
    return None if seconds is None else round(positive(name, seconds) * SECOND)


def _priority(value: int | None) -> int | None:
    return None if value is None else count("priority", value, least=-(2**15), most=2**15 - 1)


def _same(rows: int, value: int | None, kind: Any) -> NDArray[Any] | None:
    return None if value is None else np.full(rows, value, dtype=kind)
