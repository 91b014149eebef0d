"""Made-up evidence with a known error."""

from __future__ import annotations

import numpy as np

from poise.intervals.conditions import Conditions
from poise.intervals.fit import Seen


def made(groups: int = 30, each: int = 40, *, shift: float = 0.15, spread: float = 0.1, seed: int = 1) -> list[Seen]:
    """Sources of one model and device each: logarithms with a normal middle (`shift`) and normal noise about it."""
    chance = np.random.default_rng(seed)
    return [
        Seen(Conditions("tpot", model=f"m{at}", device=f"d{at}"), f"s{at}", float(middle + chance.normal(0, spread)))
        for at, middle in enumerate(chance.normal(0, shift, groups))
        for _ in range(each)
    ]
