"""Terms: estimators around others by the name of a system, so that one cost may have several of them.

A term answers for a pool as another estimator would under its system. Terms are applied in the order in which they are
named: each is around those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from poise.core.estimate import Estimator
from poise.core.spec import Pool
from poise.cost.compatibility import check_terms


class Recipe(Protocol):
    """What makes estimators, as `Roofline` does."""

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        ...


class Term(Protocol):
    """A system's change to the cost of a step.

    Optional class variables declare which terms it combines with (`poise.cost.compatibility`,
    `poise.scenario.combination`):
    hides: the resources whose time it hides behind others: what one term hides another cannot hide again.
    takes: what it alone decides, of "prompts", "decodes", "layout" and "KV" (`beside.TAKEN`).
    first: whether it makes steps, or those of prompts, without asking what it is around, and so comes first.
    phases: whether prompts and decodes may share no step, which the batcher must keep.
    prefixes: false where KV of a prefix depends on what follows it, so that no other request can use it.
    One that keeps weights or KV elsewhere may have `held(pool)` as well: the pool with the `engine.kv_blocks` that the
    system leaves it, used where none are given; CapacityError where nothing is left.
    """

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner`, the estimator of `pool`, as it is under the system; ScenarioError for a pool it cannot serve."""
        ...


class Over(Protocol):
    """A term that evaluates its inner cost on other pools than its own; otherwise as `Term`."""

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
        check_terms(self.terms)

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        if not self.terms:
            return self.cost.build(pool)
        term, inner = self.terms[-1], Termed(self.cost, self.terms[:-1])
        if hasattr(term, "over"):
            return term.over(inner.build, pool)
        return term.around(inner.build(pool), pool)


def held(cost: Recipe, pool: Pool) -> Pool:
    """The pool with the KV blocks that the terms of a cost leave it; unchanged where none sets them, or they are given.

    CapacityError where nothing is left.
    """
    if pool.engine.kv_blocks:
        return pool
    for term in getattr(cost, "terms", ()):
        if hasattr(term, "held"):
            pool = term.held(pool)
    return pool
