"""Client by client, as ServeGen does it: many clients, each with its own rate, burstiness and lengths over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload.draw import count, positive, stream
from poise.workload.generate import MOST_ROWS
from poise.workload.lengths import LONGEST
from poise.workload.table import Workload

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

MEDIA = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class Clients:
    """What is known of each client in each window of time, and the quantiles of its lengths.

    client, begin_s, expected, shape, weibull: a row for each client and window of `window_s` seconds: requests in it
    and the gaps' distribution (Gamma, or Weibull where `weibull`).  table: the row of `lengths` for it, -1 for none.
    lengths: by field (input_tokens, output_tokens; or text_tokens and counts and tokens of media) the quantiles at
    `levels`, an array of (tables, levels).
    """

    path: str
    window_s: float
    client: Rows
    begin_s: Floats
    expected: Floats
    shape: Floats
    weibull: NDArray[np.bool_]
    table: Rows
    levels: Floats
    lengths: dict[str, NDArray[np.float32]]

    @property
    def span_s(self) -> float:
        """Seconds from 0 to the end of the last window."""
        return float(self.begin_s.max()) + self.window_s

    def some(self, chosen: NDArray[Any]) -> Clients:
        """The same with only the `chosen` rows of windows."""
        names = ("client", "begin_s", "expected", "shape", "weibull", "table")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


def servegen(
    clients: Clients,
    *,
    begin_s: float = 0.0,
    duration_s: float | None = None,
    requests: int | None = None,
    rate: float | None = None,
    top: int | None = None,
    unmeasured: str = "drop",
    max_tokens: int | None = None,
    seed: int = 0,
) -> Workload:
    """Return the requests of `clients` (`read_clients`) from second `begin_s` on; the client is the tenant.

    duration_s, requests: where the arrivals stop; give one of them, the families are of up to 849 million requests.
    rate: requests per second over the whole; every client and window is scaled equally (None: as recorded).
    top: only the clients with the most requests.  unmeasured: the treatment of clients without table of lengths, `drop`
    or `pool` (each request takes the table of another client of that time, drawn by their requests).
    max_tokens: the client's limit; longer outputs are cut to it.

    As in ServeGen (arXiv 2505.09999), a window's recorded number of requests is spread over it with gaps of its fitted
    shape, scaled to fill it; here the window's beginning falls at a random place of that circle, so that clients do not
    meet at its edges. Lengths are independent inverse-CDF draws from the quantiles, linear between them; media count
    with their tokens as part of the prompt, each image on its own.
    """
    begin_s = positive("begin_s", begin_s, zero=True)
    if duration_s is None and requests is None:
        raise ScenarioError("duration_s and requests are both missing; give one, to say where the arrivals stop")
    end_s = clients.span_s if duration_s is None else begin_s + positive("duration_s", duration_s)
    if begin_s >= clients.span_s:
        raise ScenarioError(f"begin_s is {begin_s:g}; {clients.path} lasts {clients.span_s:g} s, begin before that")
    inside = clients.some((clients.begin_s + clients.window_s > begin_s) & (clients.begin_s < end_s))
    inside, facts = _measured(_busiest(inside, top), unmeasured)
    if len(inside.client) == 0:
        raise ScenarioError(f"nobody arrives from {begin_s:g} to {end_s:g} s; choose another part of the file")
    factor = 1.0
    if rate is not None:
        factor = positive("rate", rate) * (min(end_s, clients.span_s) - begin_s) / _overlap(inside, begin_s, end_s)
    if requests is not None:
        inside = _enough(inside, factor, count("requests", requests), begin_s)
    count("the number of requests asked for", round(float(inside.expected.sum()) * factor), least=0, most=MOST_ROWS)
    arrival, window = _arrivals(inside, factor, seed)
    order = np.argsort(arrival, kind="stable")
    order = order[(arrival[order] >= begin_s) & (arrival[order] < end_s)][:requests]
    if len(order) == 0:
        raise ScenarioError(f"nobody arrives from {begin_s:g} to {end_s:g} s; ask for a longer time or a higher rate")
    prompt, output = (column[order] for column in _lengths(inside, window, seed))
    limit = None
    if max_tokens is not None:
        output = np.minimum(output, count("max_tokens", max_tokens, most=LONGEST))
        limit = np.full(len(order), max_tokens, dtype=np.int32)
    return Workload(
        arrival=np.rint((arrival[order] - begin_s) * SECOND).astype(np.int64),
        prompt=prompt.astype(np.int32),
        output=output.astype(np.int32),
        max_tokens=limit,
        tenant=inside.client[window[order]].astype(np.int32),
        source={"kind": "servegen", "path": clients.path, "begin_s": begin_s, "factor": factor, **facts, "seed": seed},
    )


def _busiest(clients: Clients, top: int | None) -> Clients:
    """Only the `top` clients with the most requests; of equal ones the first."""
    if top is None:
        return clients
    names, inverse = np.unique(clients.client, return_inverse=True)
    totals = np.bincount(inverse, clients.expected)
    busiest = names[np.argsort(-totals, kind="stable")[: count("top", top)]]
    return clients.some(np.isin(clients.client, busiest))


def _measured(clients: Clients, unmeasured: str) -> tuple[Clients, dict[str, Any]]:
    """Drop or keep windows without lengths; reports their number of clients and share of the requests."""
    if unmeasured not in ("drop", "pool"):
        raise ScenarioError(f"unmeasured is {unmeasured!r}; it must be drop or pool")
    lacking = clients.table < 0
    facts = {
        "clients": len(np.unique(clients.client)),
        "unmeasured": unmeasured,
        "unmeasured_clients": len(np.unique(clients.client[lacking])),
        "unmeasured_share": float(clients.expected[lacking].sum() / max(clients.expected.sum(), 1.0)),
    }
    return (clients.some(~lacking), facts) if unmeasured == "drop" else (clients, facts)


def _overlap(clients: Clients, begin_s: float, end_s: float) -> float:
    """Requests expected between two instants, windows at the edges by their share."""
    inside = np.minimum(clients.begin_s + clients.window_s, end_s) - np.maximum(clients.begin_s, begin_s)
    return float((clients.expected * inside).sum() / clients.window_s)


def _enough(clients: Clients, factor: float, requests: int, begin_s: float) -> Clients:
    """The first windows of time that certainly hold that many requests after `begin_s`."""
    starts, inverse = np.unique(clients.begin_s, return_inverse=True)
    per_start = np.bincount(inverse, np.floor(clients.expected * factor))
    per_start[starts < begin_s] = 0
    last = min(int(np.searchsorted(np.cumsum(per_start), requests)), len(starts) - 1)
    return clients.some(clients.begin_s <= starts[last])


def _arrivals(clients: Clients, factor: float, seed: int) -> tuple[Floats, Rows]:
    """Instants in seconds, window by window, and the window of each."""
    parts: list[Floats] = []
    for row, key in enumerate(_keys(clients)):
        rng = stream(seed, f"servegen arrivals {key}")
        dice, phase = rng.random(2)
        rows = int(clients.expected[row] * factor + dice)
        shape = clients.shape[row]
        gaps = rng.weibull(shape, rows) if clients.weibull[row] else rng.standard_gamma(shape, rows)
        # Gaps of a very small shape may all be too small for a float: then all come at once.
        ends = np.cumsum(gaps) / (gaps.sum() or 1.0)
        parts.append(clients.begin_s[row] + np.sort((ends + phase) % 1.0) * clients.window_s)
    sizes = [len(part) for part in parts]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)


def _keys(clients: Clients) -> list[str]:
    return [f"{name} {begin:g}" for name, begin in zip(clients.client.tolist(), clients.begin_s.tolist(), strict=True)]


def _lengths(clients: Clients, window: Rows, seed: int) -> tuple[Floats, Floats]:
    """Prompt and output tokens of each request."""
    sizes = np.bincount(window, minlength=len(clients.client))
    table = _tables(clients, window, sizes, seed)

    def drawn(field: str) -> Floats:
        return np.rint(_quantiles(clients, field, table, _uniforms(clients, sizes, field, seed)))

    prompt = drawn("input_tokens") if "input_tokens" in clients.lengths else drawn("text_tokens")
    for kind in MEDIA:
        if f"{kind}_count" in clients.lengths and f"{kind}_tokens" in clients.lengths:
            prompt = prompt + _media(clients, kind, drawn(f"{kind}_count").astype(np.int64), table, sizes, seed)
    return np.clip(prompt, 1, LONGEST), np.clip(drawn("output_tokens"), 1, LONGEST)


def _tables(clients: Clients, window: Rows, sizes: Rows, seed: int) -> Rows:
    """The table of lengths that each request takes: its client's, or one drawn from those of that time."""
    table = clients.table[window]
    lacking = np.flatnonzero(table < 0)
    if len(lacking) == 0:
        return table
    uniform = _uniforms(clients, sizes, "table", seed)
    measured = np.flatnonzero(clients.table >= 0)
    if len(measured) == 0:
        raise ScenarioError("none of the clients has lengths to pool; ask for more of them, or for a longer time")
    begins = clients.begin_s[window]
    for begin in np.unique(begins[lacking]):
        rows = lacking[begins[lacking] == begin]
        near = measured[clients.begin_s[measured] == begin]
        near = near if len(near) else measured
        below = np.cumsum(clients.expected[near])
        table[rows] = clients.table[near[np.searchsorted(below, uniform[rows] * below[-1], side="right")]]
    return table


def _uniforms(clients: Clients, sizes: Rows, purpose: str, seed: int) -> Floats:
    """A uniform number for each request, keyed by client and window: what others draw does not shift it."""
    keys = zip(_keys(clients), sizes.tolist(), strict=True)
    return np.concatenate([stream(seed, f"servegen {purpose} {key}").random(rows) for key, rows in keys])


def _quantiles(clients: Clients, field: str, table: Rows, uniform: Floats) -> Floats:
    """The inverse of each request's cumulative distribution, linear between the levels."""
    levels, sketch = clients.levels, clients.lengths[field]
    above = np.clip(np.searchsorted(levels, uniform, side="right"), 1, len(levels) - 1)
    low, high = sketch[table, above - 1].astype(np.float64), sketch[table, above].astype(np.float64)
    return low + (high - low) * (uniform - levels[above - 1]) / (levels[above] - levels[above - 1])


def _media(clients: Clients, kind: str, counts: Rows, table: Rows, sizes: Rows, seed: int) -> Floats:
    """Tokens of all images (or sounds, or films) of each request, each drawn on its own."""
    owner = np.repeat(np.arange(len(counts)), counts)
    within = np.bincount(np.repeat(np.arange(len(sizes)), sizes), counts, minlength=len(sizes)).astype(np.int64)
    uniform = _uniforms(clients, within, f"{kind}_tokens", seed)
    drawn = np.rint(_quantiles(clients, f"{kind}_tokens", table[owner], uniform))
    return np.bincount(owner, drawn, minlength=len(counts)).astype(np.float64)
