"""Terms: estimators around others by the name of a system, so that one cost may have several of them.

A term answers for a pool as another estimator would under its system. Terms are applied in the order in which they are
named: each is around those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from poise.core.estimate import Estimator
from poise.core.spec import Pool


class Recipe(Protocol):
    """What makes estimators, as `Roofline` does."""

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        ...


class Term(Protocol):
    """A system's change to the cost of a step."""

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner`, the estimator of `pool`, as it is under the system; ScenarioError for a pool it cannot serve."""
        ...


@dataclass(frozen=True, slots=True)
class Termed:
    """A recipe whose estimators have `terms` around those of another one.

    Termed(Roofline(), (NanoFlow(),))
    """

    cost: Recipe
    terms: Sequence[Term] = ()

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        estimator = self.cost.build(pool)
        for term in self.terms:
            estimator = term.around(estimator, pool)
        return estimator
