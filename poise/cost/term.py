"""Terms: estimators around others by the name of a system, so that one cost may have several of them.

A term answers for a pool as another estimator would under its system. Terms are applied in the order in which they are
named: each is around those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator
from poise.core.spec import Pool


class Recipe(Protocol):
    """What makes estimators, as `Roofline` does."""

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        ...


class Term(Protocol):
    """A system's change to the cost of a step.

    hides: the resources whose time it hides behind others, if any (a class variable that may be missing): what one term
    hides another cannot hide again.
    phases: whether prompts and decodes may share no step, which the batcher must keep (a class variable that may be
    missing).
    One that keeps weights or KV elsewhere may have `held(pool)` as well: the pool with the `engine.kv_blocks` that the
    system leaves it, asked where none are given; CapacityError where nothing is left.
    """

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner`, the estimator of `pool`, as it is under the system; ScenarioError for a pool it cannot serve."""
        ...


class Over(Protocol):
    """A term that asks its inner cost of other pools than its own; as `Term` in everything else."""

    def over(self, build: Callable[[Pool], Estimator], pool: Pool) -> Estimator:
        """The estimator of `pool` under the system; `build` makes the inner one of any pool."""
        ...


@dataclass(frozen=True, slots=True)
class Termed:
    """A recipe whose estimators have `terms` around those of another one.

    Termed(Roofline(), (NanoFlow(),))
    """

    cost: Recipe
    terms: Sequence[Term | Over] = ()

    def __post_init__(self) -> None:
        for one, two in combinations(self.terms, 2):
            both = sorted({*getattr(one, "hides", ())} & {*getattr(two, "hides", ())})
            if both:
                names = " and ".join(type(each).__name__ for each in (one, two))
                raise ScenarioError(f"terms {names} both hide the time of {', '.join(both)}; keep one of them")
            if hasattr(one, "over"):
                names = f"{type(one).__name__} asks the others for pools of its own"
                raise ScenarioError(f"term {names}; name it last, behind {type(two).__name__}")

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        if not self.terms:
            return self.cost.build(pool)
        term, inner = self.terms[-1], Termed(self.cost, self.terms[:-1])
        if hasattr(term, "over"):
            return term.over(inner.build, pool)
        return term.around(inner.build(pool), pool)


def held(cost: Recipe, pool: Pool) -> Pool:
    """The pool with the KV blocks that the terms of a cost leave it; as it is where none has a say, or they are given.

    CapacityError where nothing is left.
    """
    if pool.engine.kv_blocks:
        return pool
    for term in getattr(cost, "terms", ()):
        if hasattr(term, "held"):
            pool = term.held(pool)
    return pool
