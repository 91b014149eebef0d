"""`check_expert_balancer`: the contract of balancers of experts as one function, for any of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from poise.core.slot import SLOTS
from poise.testing.rule import RuleBroken, calling
from poise.testing.twins import twins

_SHAPES = ((3, 16, 4, 5, 2, 4), (1, 8, 8, 2, 1, 1), (2, 32, 8, 4, 4, 4))
"""Layers, experts, ranks, slots, nodes and groups of the loads tried."""


def check_expert_balancer(make: Callable[[], Any], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `experts.ExpertBalancer` that the ones which `make()` builds do not keep.

    The rules: equal fresh ones asked the same answer the same, deep copies too; the answer is an `ExpertPlacement` of
    the view's layers, ranks and experts; each expert has a copy, and its parts sum to 1; copies whose parts are even
    fit the slots; what it reads stays as it was. Tried on small loads, some with experts that no token chose.
    """
    import numpy as np

    from poise.experts import ExpertView

    both, _ = twins("expert_balancer", make)
    draw = np.random.default_rng(seed)
    for case, (layers, experts, ranks, slots, nodes, groups) in enumerate(_SHAPES * 3):
        counts = draw.lognormal(0, 1, (layers, experts)) * (draw.random((layers, experts)) < 0.9) * 1000
        flows = draw.random((layers - 1, experts, experts)) * 100
        view = ExpertView(counts, ranks, slots, nodes, groups, flows)
        _answers(make, both.who, f"in case {case} of seed {seed}", view)


def _answers(make: Callable[[], Any], who: str, where: str, view: Any) -> None:
    import numpy as np

    given = view.counts.copy()
    found = []
    for balancer in (make(), copy.deepcopy(make())):
        with calling(who, where):
            found.append(getattr(balancer, SLOTS["expert_balancer"].verb)(view))
    _check(who, where, view, found[0])
    if not np.array_equal(found[0].weights, found[1].weights):
        raise RuleBroken(f"{who} answers differently when asked the same; keep no state outside the object; {where}")
    if not np.array_equal(given, view.counts):
        raise RuleBroken(f"{who} changes the counts that it is given; leave them as they are; {where}")


def _check(who: str, where: str, view: Any, found: Any) -> None:
    import numpy as np

    from poise.experts import ExpertPlacement

    if not isinstance(found, ExpertPlacement):
        raise RuleBroken(f"{who} answers {found!r}; it must be an ExpertPlacement; {where}")
    shape = (view.layers, view.ranks, view.experts)
    if found.holds.shape != shape:
        raise RuleBroken(f"{who} answers a placement of {found.holds.shape}; it must be of {shape}; {where}")
    if not np.allclose(found.weights.sum(axis=1), 1.0):
        raise RuleBroken(f"{who} sends an expert's tokens in parts that do not sum to 1; {where}")
    if found.parts is None and int(found.holds.sum(axis=2).max()) > view.slots:
        raise RuleBroken(f"{who} puts more copies on a rank than its {view.slots} slots; {where}")
