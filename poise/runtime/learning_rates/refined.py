"""Schedules refined by the gradient norms of a run before (Defazio et al., arXiv 2310.07831, algorithms 1 and 2)."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poise.core.errors import UserError


@dataclass(frozen=True)
class Refined:
    """The factors of a run of as many steps as `factors`; a run of another length is read in proportion."""

    factors: tuple[float, ...]

    def at(self, done: float) -> float:
        """The factor on the peak, on the line between two steps."""
        place = min(done * len(self.factors), len(self.factors) - 1)
        low = int(place)
        high = min(low + 1, len(self.factors) - 1)
        return self.factors[low] + (place - low) * (self.factors[high] - self.factors[low])


def refined(norms: Sequence[float], power: int, smoothing: float = 0.1) -> Refined:
    """w_t times the sum of the later w, over the largest of these; w_t = Ĝ_t^-power.

    norms: of each step's gradients; ℓ2 with power 2 for SGD (algorithm 1), ℓ1 with power 1 for Adam (algorithm 2).
    Ĝ is the median of each norm's neighbours, `smoothing` of the run wide, reflected at its ends.
    """
    weights = [each**-power for each in medians(norms, max(1, int(smoothing * len(norms))))]
    later, factors = 0.0, []
    for weight in reversed(weights):
        factors.append(weight * later)
        later += weight
    most = max(factors)
    return Refined(tuple(each / most for each in reversed(factors)))


def medians(values: Sequence[float], width: int) -> list[float]:
    """The median of `width` neighbours of each value (one more where that is even), which are reflected at the ends."""
    half, count = width // 2, len(values)

    def at(place: int) -> float:
        place %= 2 * count
        return values[place if place < count else 2 * count - 1 - place]

    window = sorted(at(place) for place in range(-half, half + 1))
    found = []
    for place in range(count):
        found.append(window[half])
        del window[bisect_left(window, at(place - half))]
        insort(window, at(place + half + 1))
    return found


def norms_of(file: Path, key: str) -> list[float]:
    """A column of a run's metrics; UserError where the file has none, or fewer than two positive norms."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found = [float(json.loads(line)[key]) for line in lines]
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give a file of --metrics") from None
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{file}: has lines without {key}; give a file that `poise train run --metrics` wrote"
        ) from None
    if len(found) < 2 or min(found) <= 0:
        raise UserError(f"{file}: {key} needs two steps or more, all above 0; give a longer run's file")
    return found
