"""ALF-LB as steps on a dual: what its theory says of one batch that repeats, and of batches that do not."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.claims.routed_batches import scores_of
from poise.experts.routers.alf_lb import AlfLb, dual
from poise.experts.routers.routing import max_violation


class Steps(NamedTuple):
    """One batch again and again.

    rises: of steps after which the dual was larger.  moved: pairs of an expert that a token left and one that it
    joined.  wrong: those of them whose joined expert had the larger load.  left: MaxVio at the end.
    """

    rises: int
    moved: int
    wrong: int
    left: float


def steps(
    rate: float, seed: int, *, rule: Literal["sign", "error"] = "error", batches: int = 100, tokens: int = 1024,
    experts: int = 16, k: int = 2,
) -> Steps:  # fmt: skip
    """The theory's deterministic setting."""
    scores = scores_of(np.random.default_rng(seed), tokens, experts)
    made = AlfLb(k, rate, rule)
    state, rises, moved, wrong = made.start(experts), 0, 0, 0
    routed = made.route(scores, state)
    for _ in range(batches):
        loads, after = routed.loads(experts), made.route(scores, routed.state)
        rises += dual(scores, routed.state[:-1], k) > dual(scores, state[:-1], k) + 1e-12
        left, joined = _held(routed.chosen, experts), _held(after.chosen, experts)
        pairs = np.einsum("te,tf->ef", left & ~joined, joined & ~left, dtype=np.int64)
        moved += int(pairs.sum())
        wrong += int(pairs[loads[:, None] < loads[None, :]].sum())
        state, routed = routed.state, after
    return Steps(rises, moved, wrong, max_violation(routed.loads(experts)))


class Regret(NamedTuple):
    """New batches. first, all: the sum of duals beyond that of the best bias in hindsight, over a quarter and all."""

    first: float
    all: float


def regret(
    decay: float, seed: int, *, rate: float = 0.02, batches: int = 128, tokens: int = 128, experts: int = 8, k: int = 2
) -> Regret:
    """The theory's setting online, with steps of rate / t^decay by the error."""
    draw = np.random.default_rng(seed)
    popular = draw.normal(size=experts)
    made, some = AlfLb(k, rate, "error", decay), []
    state, paid = made.start(experts), []
    for _ in range(batches):
        some.append(scores_of(draw, tokens, experts, popular))
        paid.append(dual(some[-1], state[:-1], k))
        state = made.route(some[-1], state).state
    found = []
    for end in (batches // 4, batches):
        best = _best(np.concatenate(some[:end]), k)
        found.append(sum(paid[:end]) - end * best)
    return Regret(*found)


def _best(scores: NDArray[Any], k: int) -> float:
    """The least dual of all scores that 100 falling steps find."""
    made = AlfLb(k, 0.02, "error", 0.5)
    state, least = made.start(scores.shape[1]), np.inf
    for _ in range(100):
        least = min(least, dual(scores, state[:-1], k))
        state = made.route(scores, state).state
    return float(least)


def _held(chosen: NDArray[Any], experts: int) -> NDArray[Any]:
    found = np.zeros((len(chosen), experts), dtype=bool)
    np.put_along_axis(found, chosen, True, axis=1)
    return found
