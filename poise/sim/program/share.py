"""Computations of one device at once: they share it as transfers share links, so each is slower while both run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from poise.core.errors import ProgramError
from poise.core.units import SECOND
from poise.program.index import Index
from poise.sim.program.clock import Clock
from poise.sim.program.routes import Flow

SLOWDOWN = 132 / (132 - 20)
"""Each of two computations takes so many times as long while both run: of the 132 SMs of an H800, 20 carry messages
(DeepSeek-V3 technical report, 2024, section 3.2.2), and computing and communicating take about equally long (3.2.1),
so that each of a forward and a backward computes while the other communicates, on the SMs that are left."""

Shared = tuple[Clock, dict[int, Sequence[Flow]], list[float]]


def shared(
    index: Index, clock: Clock, routes: Mapping[int, Sequence[Flow]], bytes_per_s: Sequence[float], slowdown: float
) -> Shared:  # fmt: skip
    """Clock, routes and links of a Program whose ranks may have the lanes `compute`, `compute 1` and so on.

    The computations of such a rank are flows of seconds: over a link of their lane's own, which carries one a second,
    and over the device, which carries 2 / `slowdown`. With 1 two run as if each was alone, with 2 as if one after the
    other.  ProgramError for less than 1.
    """
    if not (isfinite(slowdown) and slowdown >= 1):
        raise ProgramError(f"slowdown: {slowdown:g} times as long; give 1 or more")
    lanes: dict[int, list[int]] = {}
    for place, lane in enumerate(index.lanes):
        if lane.name.startswith("compute"):
            lanes.setdefault(lane.rank, []).append(place)
    ticks, found, links = list(clock.ticks), dict(routes), list(bytes_per_s)
    for places in lanes.values():
        if len(places) < 2:
            continue
        device = len(links)
        links += [2 / slowdown, *[1.0] * len(places)]
        for number, place in enumerate(places):
            for task in range(index.first[place], index.first[place + 1]):
                if ticks[task] and task not in found:
                    found[task] = [(ticks[task] / SECOND, (device, device + 1 + number))]
                    ticks[task] = 0
    return Clock(ticks, clock.lags), found, links
