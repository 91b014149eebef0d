"""Distributions of lengths, turns and think times: small frozen values, from Python or from one-key mappings.

A distribution yields real numbers; columns of tokens round them to whole numbers of at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import count, positive
from poise.workload.pareto import Llumnix, Pareto

Floats = NDArray[np.float64]

LONGEST = 2**31 - 1
"""Tokens that a column can hold."""


class Distribution(Protocol):
    """Anything that draws `rows` numbers, in row order, from a generator."""

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return `rows` numbers of at least 0."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value`."""

    value: float

    def __post_init__(self) -> None:
        positive("fixed: value", self.value, zero=True)

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return `value`, `rows` times."""
        return np.full(rows, float(self.value))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform over the whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if count("uniform: high", self.high, least=0) < count("uniform: low", self.low, least=0):
            raise ScenarioError(f"uniform: high is {self.high}, below low {self.low}; swap them")

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return whole numbers in [low, high]."""
        return np.floor(self.low + rng.random(rows) * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lognormal with the given mean and coefficient of variation; larger draws become `max`, which lowers the mean."""

    mean: float
    cv: float
    max: float | None = None

    def __post_init__(self) -> None:
        positive("lognormal: mean", self.mean)
        positive("lognormal: cv", self.cv, zero=True)
        if self.max is not None:
            positive("lognormal: max", self.max)

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return exp(μ + σz) with σ² = ln(1 + cv²) and μ = ln mean − σ²/2."""
        variance = math.log1p(self.cv**2)
        drawn = np.exp(math.log(self.mean) - variance / 2 + math.sqrt(variance) * rng.standard_normal(rows))
        return drawn if self.max is None else np.minimum(drawn, self.max)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with the given mean; larger draws become `max`, which lowers the mean."""

    mean: float
    max: float | None = None

    def __post_init__(self) -> None:
        positive("exponential: mean", self.mean)
        if self.max is not None:
            positive("exponential: max", self.max)

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return −mean · ln(1 − u)."""
        drawn = self.mean * rng.standard_exponential(rows)
        return drawn if self.max is None else np.minimum(drawn, self.max)


@dataclass(frozen=True, slots=True)
class Geometric:
    """Whole numbers from 1 with P(k) = (1 − 1/mean)^(k−1) / mean; `mean` is at least 1."""

    mean: float

    def __post_init__(self) -> None:
        if positive("geometric: mean", self.mean) < 1:
            raise ScenarioError(f"geometric: mean is {self.mean}; it must be at least 1, the smallest value drawn")

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return ⌈ln(1 − u) / ln(1 − 1/mean)⌉, at least 1."""
        if self.mean == 1:
            return np.ones(rows)
        drawn = np.ceil(rng.standard_exponential(rows) / -math.log1p(-1 / self.mean))
        return np.maximum(drawn, 1.0)


@dataclass(frozen=True, slots=True)
class Zipf:
    """Whole numbers from `min` to `max` with P(k) ∝ k^−exponent."""

    exponent: float
    max: int
    min: int = 1

    def __post_init__(self) -> None:
        positive("zipf: exponent", self.exponent, zero=True)
        if count("zipf: max", self.max) < count("zipf: min", self.min):
            raise ScenarioError(f"zipf: max is {self.max}, below min {self.min}; swap them")

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return draws by the inverse of the cumulative distribution."""
        values = np.arange(self.min, self.max + 1, dtype=np.float64)
        below = np.cumsum(values**-self.exponent)
        at = np.searchsorted(below, rng.random(rows) * below[-1], side="right")
        drawn: Floats = values[at.clip(max=len(values) - 1)]
        return drawn


@dataclass(frozen=True, slots=True)
class Empirical:
    """Draws with replacement from `values`, each as likely as the others."""

    values: Sequence[float]

    def __post_init__(self) -> None:
        listed = isinstance(self.values, Sequence | np.ndarray) and not isinstance(self.values, str)
        if not listed or len(self.values) == 0:
            raise ScenarioError(f"empirical: values is {self.values!r}; give a list of at least one number")
        numbers = tuple(positive("empirical: a value", each, zero=True) for each in self.values)
        object.__setattr__(self, "values", numbers)

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return members of `values`."""
        at = (rng.random(rows) * len(self.values)).astype(np.int64)
        return np.asarray(self.values, dtype=np.float64)[at]


fixed, uniform, lognormal, exponential = Fixed, Uniform, Lognormal, Exponential
geometric, zipf, empirical = Geometric, Zipf, Empirical
pareto, llumnix = Pareto, Llumnix

NAMED: dict[str, type[Distribution]] = {
    "fixed": Fixed,
    "uniform": Uniform,
    "lognormal": Lognormal,
    "exponential": Exponential,
    "geometric": Geometric,
    "zipf": Zipf,
    "empirical": Empirical,
    "pareto": Pareto,
    "llumnix": Llumnix,
}
"""Distributions by the key that names them in a scenario."""

Spec = float | Distribution | Mapping[str, Any]
"""A distribution as users write it: a number, an object, or a mapping (`{"lognormal": {"mean": 800, "cv": 0.9}}`)."""


def length(spec: Spec, name: str = "length") -> Distribution:
    """Return the distribution that `spec` describes; ScenarioError for a bad one, its message beginning with `name`.

    A mapping has one key, a distribution of `NAMED`; its value maps the parameters, or is the first of them alone
    (`{"fixed": 512}`, `{"empirical": [3, 5]}`).
    """
    if isinstance(spec, Mapping):
        return _from_mapping(spec, name)
    if isinstance(spec, int | float | np.integer | np.floating):
        return Fixed(positive(name, spec, zero=True))
    if not hasattr(spec, "draw"):
        raise ScenarioError(f"{name} is {spec!r}; give a number or one of {', '.join(NAMED)}")
    return spec


def _from_mapping(spec: Mapping[str, Any], name: str) -> Distribution:
    if len(spec) != 1 or next(iter(spec)) not in NAMED:
        example = "{lognormal: {mean: 800, cv: 0.9}}"
        raise ScenarioError(
            f"{name} has the keys {list(spec)}; give exactly one of {', '.join(NAMED)}, as in {example}"
        )
    (key, values) = next(iter(spec.items()))
    kind: Any = NAMED[key]
    names = [each.name for each in fields(kind)]
    given = dict(values) if isinstance(values, Mapping) else {names[0]: values}
    unknown = [each for each in given if each not in names]
    if unknown:
        raise ScenarioError(f"{name}: {key} has no parameter {unknown[0]!r}; it takes {', '.join(names)}")
    try:
        made: Distribution = kind(**given)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from None
    except TypeError:
        lacking = [each.name for each in fields(kind) if each.name not in given and each.default is MISSING]
        raise ScenarioError(f"{name}: {key} lacks {', '.join(lacking)}; it takes {', '.join(names)}") from None
    return made


def tokens(distribution: Distribution, rng: np.random.Generator, rows: int, name: str) -> NDArray[np.int32]:
    """Return `rows` whole numbers of at least 1, drawn and rounded to the nearest."""
    drawn = np.maximum(np.rint(distribution.draw(rng, rows)), 1.0)
    if drawn.max(initial=1.0) > LONGEST:
        raise ScenarioError(f"{name} drew {drawn.max():.0f}; a length may be {LONGEST} tokens at most; set max")
    return drawn.astype(np.int32)
