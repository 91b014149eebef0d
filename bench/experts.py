"""Balancers of experts on drawn and recorded loads: balance, time and moves, beside DeepSeek's own EPLB.

    python bench/experts.py [--peer FILE] [--data DIR]

61 layers of 256 experts in 288 slots on 32 ranks of 4 nodes, router groups of 8. `--peer` names deepseek-ai/EPLB's
`eplb.py`, which needs torch and is run in the same process, slices in turn. `--data` adds recorded loads
(`moe_routing/expert_counts.csv.gz`): OLMoE-1B-7B and Mixtral-8x7B with an eighth of redundant copies.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts import ExpertView, least_busiest
from poise.experts.placement import from_physical
from poise.policies.rebalance.eplb import Eplb
from poise.policies.rebalance.few_moves import FewMoves
from poise.policies.rebalance.floating_copies import FloatingCopies

LAYERS, EXPERTS, RANKS, SLOTS, NODES, GROUPS = 61, 256, 32, 9, 4, 8
ROUNDS = 5


def drawn() -> dict[str, NDArray[Any]]:
    """Loads of four kinds, by name."""
    draw = np.random.default_rng(0)
    shape = (LAYERS, EXPERTS)
    zipf = np.stack([draw.permutation(1 / np.arange(1, EXPERTS + 1)) for _ in range(LAYERS)])
    return {
        "lognormal 1": draw.lognormal(0, 1, shape),
        "lognormal .5": draw.lognormal(0, 0.5, shape),
        "Zipf 1": zipf,
        "uniform": draw.uniform(0.5, 1.5, shape),
    }


def balancers(peer: Path | None) -> dict[str, Callable[[ExpertView], Any]]:
    """What is compared, by name."""
    found: dict[str, Callable[[ExpertView], Any]] = {
        "eplb": Eplb().rebalance,
        "eplb, global": Eplb(hierarchical=False).rebalance,
        "floating_copies": FloatingCopies().rebalance,
        "floating_copies, one node": lambda view: FloatingCopies().rebalance(
            ExpertView(view.counts, view.ranks, view.slots)
        ),
        "few_moves": lambda view: FewMoves(windows=1).rebalance(view),
        "few_moves, 300": lambda view: FewMoves(windows=1).rebalance(
            ExpertView(view.counts, view.ranks, view.slots, moves=300)
        ),
    }
    if peer is not None:
        found["deepseek-ai/EPLB"] = _peer(peer)
    return found


def _peer(file: Path) -> Callable[[ExpertView], Any]:
    import torch

    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("eplb", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def rebalance(view: ExpertView) -> Any:
        weight = torch.tensor(view.counts)
        physical, _, _ = module.rebalance_experts(weight, view.ranks * view.slots, view.groups, view.nodes, view.ranks)
        return from_physical(physical.tolist(), view.experts, view.ranks)

    return rebalance


def compare(name: str, view: ExpertView, tried: dict[str, Callable[[ExpertView], Any]]) -> None:
    """Print a line for each balancer; the time is the least of some rounds, in turn."""
    seconds: dict[str, list[float]] = defaultdict(list)
    found = {}
    for _ in range(ROUNDS):
        for each, rebalance in tried.items():
            began = time.perf_counter()
            found[each] = rebalance(view)
            seconds[each].append(time.perf_counter() - began)
    bound = least_busiest(view.counts, view.ranks, view.slots)
    print(f"\n{name}: in order {view.standing().balance(view.counts).mean():.3f}, load {os.getloadavg()[0]:.1f}")
    print(f"{'balancer':28}{'balance':>9}{'worst':>9}{'over bound':>12}{'fetched':>9}{'seconds':>9}")
    for each, placement in found.items():
        balance = placement.balance(view.counts)
        over = placement.loads(view.counts).max(axis=1) / bound - 1
        fetched = placement.fetched(view.standing()).sum()
        print(
            f"{each:28}{balance.mean():9.4f}{balance.min():9.4f}{100 * over.mean():11.2f}%{fetched:9,}"
            f"{min(seconds[each]):9.3f}"
        )


def recorded(data: Path) -> dict[str, NDArray[Any]]:
    """(layers × experts) pairs by model and domain."""
    tables: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    with gzip.open(data / "moe_routing" / "expert_counts.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["topk"] == "topk":
                name = f"{row['model']}, {row['domain']}"
                tables[name][int(row["layer"])][int(row["expert"])] = int(row["count"])
    found = {}
    for name, layers in tables.items():
        experts = 8 if "mixtral" in name else 64
        found[name] = np.array(
            [[layer.get(e, 0) for e in range(experts)] for _, layer in sorted(layers.items())], float
        )
    return found


def main() -> None:
    """Run what the options ask for."""
    options = argparse.ArgumentParser()
    options.add_argument("--peer", type=Path)
    options.add_argument("--data", type=Path)
    given = options.parse_args()
    tried = balancers(given.peer)
    for name, counts in drawn().items():
        compare(name, ExpertView(counts, RANKS, SLOTS, NODES, GROUPS), tried)
    for name, counts in (recorded(given.data) if given.data else {}).items():
        ranks, slots = (8, 9) if counts.shape[1] == 64 else (4, 3)
        compare(name, ExpertView(counts, ranks, slots), tried)


if __name__ == "__main__":
    main()
