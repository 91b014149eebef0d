"""Closed forms of pipeline schedules: what a rank holds at most, and how long the busiest one waits.

They rank the layouts of a search; the best are then simulated with the schedule itself. p: ranks, v: chunks of a rank,
r: rank, m: microbatches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LOOP, WAVE = "loop", "wave"


class Filling(NamedTuple):
    """Work of a microbatch on all other ranks, chunks of a rank, and forward, input and weight gradient of a layer."""

    rest: Array
    chunks: Array
    f: Array
    b: Array
    w: Array

    @property
    def zero_bubble(self) -> Array:
        """F + B − W of each other rank: what ZB-H1 leaves (Qi 2024, table 2)."""
        return np.asarray(self.rest * np.maximum(0.0, self.f + self.b - self.w) / self.total)

    @property
    def full_zero_bubble(self) -> Array:
        """F + B − 2W of each other rank: ZB-H2 (Qi 2024, table 2), ZB-V at most."""
        return np.asarray(self.rest * np.maximum(0.0, self.f + self.b - 2 * self.w) / self.total)

    @property
    def total(self) -> Array:
        """Work of one microbatch on a layer."""
        return self.f + self.b + self.w


class Form(NamedTuple):
    """Microbatches of a full stage that rank r holds at most, by (p, v, r, m), and the wait of the busiest rank.

    place: "" for one chunk on a rank, LOOP for two or more, WAVE for two as a V.  copies: of the weights on a rank,
    of which all but one serve the other direction; the exchange of gradients between them is left to simulation.
    """

    held: Callable[[Array, Array, Array, Array], Array]
    fill: Callable[[Filling], Array]
    place: str = ""
    copies: int = 1
    chunks: int = 1


def _gis_h(on: Filling) -> Array:
    more = (on.chunks - 1) / (2 * on.chunks) * on.zero_bubble
    return np.asarray(on.rest * (on.f + on.b) / on.total / on.chunks + more)


FORMS: dict[str, Form] = {
    # Narayanan 2021, 2.2
    "one_f_one_b": Form(lambda p, v, r, m: p - r, lambda on: on.rest),
    "interleaved": Form(
        lambda p, v, r, m: (2 * (p - r - 1) + (v - 1) * p + 1) / v, lambda on: on.rest / on.chunks, LOOP
    ),
    "gpipe": Form(lambda p, v, r, m: m, lambda on: on.rest),
    # Qi 2024, table 2
    "zb_h1": Form(lambda p, v, r, m: p, lambda on: on.zero_bubble),
    "zb_h2": Form(lambda p, v, r, m: 2 * p - 1, lambda on: on.full_zero_bubble),
    # Qi 2024b, table 1
    "zb_v": Form(lambda p, v, r, m: p, lambda on: on.full_zero_bubble, WAVE, chunks=2),
    "v_half": Form(lambda p, v, r, m: p / 2 + 1, lambda on: on.rest / 2, WAVE, chunks=2),
    "v_min": Form(lambda p, v, r, m: p / 3 + 2, lambda on: on.rest * 2 / 3, WAVE, chunks=2),
    # Lamy-Poirier 2023
    "breadth_first": Form(lambda p, v, r, m: m, lambda on: on.rest / on.chunks, LOOP),
    # Wan 2025, section 4
    "gis": Form(lambda p, v, r, m: p, lambda on: on.rest * (on.f + on.b) / on.total / on.chunks, LOOP),
    "gis_h": Form(lambda p, v, r, m: (p / 2 * (v - 1) + p) / v, _gis_h, LOOP),
    # Tang 2024, at a unit of p
    "zeropp": Form(lambda p, v, r, m: p, lambda on: on.rest * on.f / on.total / on.chunks, LOOP),
    # Liu 2023; of more than p microbatches all of 1F1B's
    "hanayo": Form(lambda p, v, r, m: 2 * p - 1, lambda on: on.rest, WAVE, chunks=2),
    # Rae 2024
    "two_bp": Form(lambda p, v, r, m: m, lambda on: on.zero_bubble),
    # DeepSeek 2024: half the way from each end
    "dualpipe": Form(lambda p, v, r, m: p + 1, lambda on: on.zero_bubble / 2, copies=2),
    "dualpipe_v": Form(lambda p, v, r, m: p + 1, lambda on: on.zero_bubble / 2, WAVE, chunks=2),
    # Li 2021, Wu 2024; measured at p = 8, m = 32: 2 / 3 and 5 / 7 of 1F1B's
    "chimera": Form(lambda p, v, r, m: 2 * p, lambda on: on.rest * 2 / 3, copies=2),
    "bitpipe": Form(lambda p, v, r, m: p, lambda on: on.rest * 5 / 7, copies=2, chunks=2),
    # Searched within p full-stage activations
    "zb_auto": Form(lambda p, v, r, m: p, lambda on: on.zero_bubble),
    "v_auto": Form(lambda p, v, r, m: p, lambda on: on.full_zero_bubble, WAVE, chunks=2),
    "poise": Form(lambda p, v, r, m: p, lambda on: on.full_zero_bubble, WAVE, chunks=2),
}

LIMITED = frozenset({"zb_auto", "poise"})
"""Those that are made within p full-stage activations of a rank."""

COUNTS: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "dualpipe": ("even, and microbatches at least twice the ranks", lambda p, m: p % 2 == m % 2 == 0 and m >= 2 * p),
    "chimera": ("even", lambda p, m: p % 2 == m % 2 == 0),
    "bitpipe": ("even, and microbatches a multiple of the ranks", lambda p, m: p % 2 == m % p == 0),
    "dualpipe_v": ("at most half the microbatches", lambda p, m: m >= 2 * p),
    "gis": ("a divisor of the microbatches", lambda p, m: m % p == 0),
    "gis_h": ("such that half of them, rounded up, divide the microbatches", lambda p, m: m % ((p + 1) // 2) == 0),
}
"""What ranks and microbatches of some schedules must be."""

REFUSED = {
    "pipedream": "uses stale weights, so it trains another way; take one_f_one_b",
    "pipelined_backprop": "uses stale weights, so it trains another way; take one_f_one_b",
    "skippipe": "skips stages, so it trains another way; take one_f_one_b",
    "vocab_1": "needs the output layer cut over all ranks, which layouts do not; take one_f_one_b",
    "vocab_2": "needs the output layer cut over all ranks, which layouts do not; take one_f_one_b",
    "po_h": "copies activations to the host in its own order; take gis_h with --offload-activations",
    "po_f": "copies activations to the host in its own order; take gis_h with --offload-activations",
    "zb_exact": "proves an optimum of up to 3,000 operations, which takes too long in a search; take zb_auto or poise",
}
"""Schedules that `poise train schedule` makes and a search does not, with the reason and what to take."""

SCHEDULES = tuple(FORMS)
"""Schedules with a closed form, in the order of a column's numbers."""


def why_not(name: str) -> str:
    """What is wrong with a name that is not searched, and the cure."""
    if name in REFUSED:
        return f"schedule {name!r} {REFUSED[name]}"
    return f"schedule {name!r} is not searched; known: {', '.join(SCHEDULES)}"


def allowed(name: str, ranks: int, microbatches: int) -> bool:
    """Whether a schedule can be made of these counts."""
    return name not in COUNTS or COUNTS[name][1](ranks, microbatches)


def held(schedule: Array, p: Array, v: Array, r: Array, m: Array) -> Array:
    """Microbatches of a full stage whose activations rank r holds at most, by its schedule."""
    return np.minimum(_each(schedule, lambda form: form.held(p, v, r, m)), m)


def fill(schedule: Array, on: Filling) -> Array:
    """Seconds in which the busiest rank waits for the pipeline to fill and to drain, by its schedule."""
    return _each(schedule, lambda form: form.fill(on))


def copies(schedule: Array) -> Array:
    """How often a rank holds its part of the weights."""
    return np.array([form.copies for form in FORMS.values()])[schedule]


def wraps(schedule: Array) -> Array:
    """Whether the last stage is on the first rank."""
    return np.array([form.place == WAVE or form.copies > 1 for form in FORMS.values()])[schedule]


def _each(schedule: Array, of: Callable[[Form], Array]) -> Array:
    """The figures of each row's own schedule; only those that occur are computed."""
    found = np.zeros(len(schedule))
    for number in np.unique(schedule):
        rows = schedule == number
        found[rows] = np.broadcast_to(np.asarray(of(FORMS[SCHEDULES[number]]), dtype=float), found.shape)[rows]
    return found
