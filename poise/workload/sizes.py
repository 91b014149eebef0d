"""A histogram of request sizes with rates, as placers ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.placement import Bucket, Demand
from poise.workload.table import Ints

PROMPTS = (25, 50, 100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)
OUTPUTS = (25, 50, 100, 250, 500, 1000, 2000, 4000)
"""Most tokens of a bucket, both ways; longer requests are in one bucket more."""


def demand(
    prompt: Ints, output: Ints, rate: float, prompts: Sequence[int] = PROMPTS, outputs: Sequence[int] = OUTPUTS
) -> Demand:
    """The histogram of requests of these lengths that come `rate` times a second.

    prompts, outputs: the most tokens of each bucket, ascending. A bucket represents its requests by their mean
    lengths, rounded up, and has its part of the rate; empty ones are left out. Buckets are sorted by size.
    """
    places = places_of(prompt, output, prompts, outputs)
    found = []
    for place in np.unique(places):
        here = places == place
        prompt_tokens, output_tokens = (int(np.ceil(column[here].mean())) for column in (prompt, output))
        found.append(Bucket(prompt_tokens, output_tokens, rate * float(here.mean())))
    return Demand(tuple(found))


def places_of(
    prompt: Ints, output: Ints, prompts: Sequence[int] = PROMPTS, outputs: Sequence[int] = OUTPUTS
) -> NDArray[np.int64]:
    """For each request the number of its cell; requests of one cell are of one bucket, in the same order."""
    for name, edges in (("prompts", prompts), ("outputs", outputs)):
        if list(edges) != sorted(set(edges)):
            raise UserError(f"{name}: edges {tuple(edges)} do not ascend; give each once, the smallest first")
    row, column = np.searchsorted(prompts, prompt), np.searchsorted(outputs, output)
    cells: NDArray[np.int64] = row * (len(outputs) + 1) + column
    return cells
