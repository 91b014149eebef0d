"""MoETuner on recorded routing: balance of ranks, and what the busiest link between two of them carries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.recorded_routing import read_flows, view_of
from poise.experts import ExpertPlacement
from poise.policies.rebalance.eplb import Eplb
from poise.policies.rebalance.moetuner import MoeTuner

RANKS = {2: 1, 4: 1, 8: 2}
"""Nodes by ranks."""


def busiest(placement: ExpertPlacement, flows: NDArray[Any], nodes: int, far: float) -> float:
    """The most that two ranks exchange over all layers, tokens between nodes weighed `far` times."""
    sent = np.einsum("lra,lab,lsb->rs", placement.weights[:-1], flows, placement.weights[1:])
    node = np.arange(placement.ranks) * nodes // placement.ranks
    sent = sent * np.where(node[:, None] == node[None, :], 1.0, far)
    np.fill_diagonal(sent, 0.0)
    return float(sent.max())


def measure(bench: Bench) -> Findings:
    """Models × domains × ranks: MoETuner beside experts in order, and beside packing without regard of traffic."""
    tuner = MoeTuner()
    less: dict[str, dict[int, float]] = {}
    balance: list[float] = []
    packed: list[float] = []
    for (model, domain), flows in read_flows(bench.file()).items():
        for ranks, nodes in RANKS.items():
            view = view_of(flows, ranks, nodes)
            before, after = view.standing(), tuner.rebalance(view)
            links = [busiest(each, flows, nodes, tuner.far) for each in (before, after, Eplb().rebalance(view))]
            less.setdefault(f"{model}, {domain}", {})[ranks] = 1 - links[1] / links[0]
            packed.append(1 - links[1] / links[2])
            balance.append(float((after.balance(view.counts) / before.balance(view.counts)).min()))
    gains = [each for line in less.values() for each in line.values()]
    answers = [
        Answer("balance", f"{min(balance):.3f} times at the least", min(balance)),
        Answer(
            "traffic", f"{min(gains):.3f} to {max(gains):.3f}, {np.mean(gains):.3f} in the mean", float(np.mean(gains))
        ),
        Answer("packing", f"{np.mean(packed):.3f} in the mean", float(np.mean(packed))),
    ]
    lines = {name: [Point(ranks, value) for ranks, value in line.items()] for name, line in less.items()}
    return Findings(answers, [Curve("Less on the busiest link", "ranks", "share", lines)])
