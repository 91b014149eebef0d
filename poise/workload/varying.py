"""Arrivals whose rate changes: by the time of day, or on and off at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from poise.core.errors import ScenarioError
from poise.workload.draw import count, positive, stream
from poise.workload.generate import MOST_ROWS, Floats, Options, endless, filled, gaps_of, until
from poise.workload.lengths import Spec, length
from poise.workload.profile import Profile, spiked
from poise.workload.table import Workload


def diurnal(
    points: Profile | Sequence[Sequence[float]],
    *,
    rate: float | None = None,
    cv: float = 1.0,
    repeat: bool = False,
    spikes: Sequence[Mapping[str, float]] = (),
    requests: int | None = None,
    duration_s: float | None = None,
    **options: Unpack[Options],
) -> Workload:
    """Return arrivals that follow a profile: pairs of second and requests per second, or a `Profile`.

    An exact inhomogeneous Poisson process, by inversion. rate: the profile's mean is scaled to it (None: as given).
    cv: of the gaps as the profile stretches them, 1 for Poisson (BurstGPT, arXiv 2401.17644: Gamma gaps whose
    parameters vary over time).  spikes: mappings of at_s, lasting_s and factor, upon the scaled profile.
    Arrivals end with the profile, or with `requests` or `duration_s`; with `repeat` it comes again and again, and then
    an end must be given, or be that of the simulation.
    """
    profile = points if isinstance(points, Profile) else Profile.of(points)
    if rate is not None:
        profile = profile.times(positive("rate", rate) / profile.mean)
    profile = spiked(profile, spikes)
    facts = {"kind": "diurnal", "rate": profile.mean, "cv": positive("cv", cv, zero=True), "span_s": profile.span_s}
    if duration_s is not None and not repeat and positive("duration_s", duration_s) > profile.span_s:
        raise ScenarioError(
            f"duration_s is {duration_s:g}, and the profile ends at {profile.span_s:g} s; shorten it or set repeat"
        )
    if repeat and requests is None and duration_s is None:
        first = follow(profile, cv, 1, None, options, facts)
        return endless(first, lambda seconds: follow(profile, cv, None, seconds, options, facts))
    end = duration_s if repeat or duration_s is not None else profile.span_s
    return follow(profile, cv, requests, end, options, facts)


def on_off(
    rate_on: float,
    *,
    on_s: Spec,
    off_s: Spec,
    rate_off: float = 0.0,
    requests: int | None = None,
    duration_s: float | None = None,
    **options: Unpack[Options],
) -> Workload:
    """Return Poisson arrivals at `rate_off` and `rate_on` by turns, beginning with the former.

    on_s, off_s: how long each turn lasts, a number or a distribution. Exponential ones make a two-state
    Markov-modulated Poisson process, numbers make regular spikes.
    """
    positive("rate_on", rate_on)
    positive("rate_off", rate_off, zero=True)
    if requests is None and duration_s is None:
        first = on_off(rate_on, on_s=on_s, off_s=off_s, rate_off=rate_off, requests=1, **options)

        def draw(seconds: float) -> Workload:
            return on_off(rate_on, on_s=on_s, off_s=off_s, rate_off=rate_off, duration_s=seconds, **options)

        return endless(first, draw)
    if requests is not None:
        count("requests", requests, most=MOST_ROWS)
    seed = options.get("seed", 0)
    facts = {"kind": "on_off", "rate_on": rate_on, "rate_off": rate_off}
    lasting = [length(spec, name) for name, spec in (("off_s", off_s), ("on_s", on_s))]
    turns = 64
    while True:
        # Streams yield in row order, so more turns begin with the same ones.
        drawn = [each.draw(stream(seed, name), turns) for each, name in zip(lasting, ("off_s", "on_s"), strict=True)]
        lasts = np.stack(drawn, axis=1).ravel()
        if not drawn[1].any():
            raise ScenarioError("on_s draws nothing but 0; give turns that last")
        profile = Profile.steps(lasts, np.tile([rate_off, rate_on], turns))
        enough = requests is not None and profile.total > requests + 10 * requests**0.5 + 10
        if enough or (duration_s is not None and profile.span_s >= duration_s):
            return follow(profile, 1.0, requests, duration_s, options, facts)
        turns *= 2
        if turns > MOST_ROWS:
            raise ScenarioError("on_s and off_s are too short for so long a load; give longer ones")


def follow(
    profile: Profile, cv: float, requests: int | None, end_s: float | None, options: Options, facts: dict[str, Any]
) -> Workload:
    """Arrivals at rate 1 with the given cv, stretched along the profile."""
    expected = None if end_s is None else profile.until(end_s)
    if expected == 0:
        raise ScenarioError("duration_s is too short: no request arrives in it; make it longer or give requests")
    counted = until(gaps_of(cv, stream(options.get("seed", 0), "arrival")), 1.0, requests, expected)
    arrival: Floats = profile.when(counted)
    return filled(arrival, options, facts)
