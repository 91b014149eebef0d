"""Balancers of experts on drawn and recorded loads: balance, time and moves, beside DeepSeek's own EPLB.

    python bench/experts.py [--peer FILE] [--data DIR] [--drift]

61 layers of 256 experts in 288 slots on 32 ranks of 4 nodes, router groups of 8. `--peer` names deepseek-ai/EPLB's
`eplb.py`, which needs torch and is run in the same process, slices in turn. `--data` adds recorded loads
(`moe_routing/expert_counts.csv.gz`): OLMoE-1B-7B and Mixtral-8x7B with an eighth of redundant copies. `--drift` plans
again and again instead: each plan sees the window before the one that it serves, planted (popularity walks) and, with
`--data`, recorded (four windows of each domain, books, web, code).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts import ExpertBalancer, ExpertView, least_busiest
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


def walked(stay: float, windows: int = 12, layers: int = 2) -> list[NDArray[Any]]:
    """Loads of windows whose popularity has a lognormal spread of 1 and a correlation of `stay` with the one before."""
    draw = np.random.default_rng(0)
    level = draw.normal(0, 1, (layers, EXPERTS))
    found = []
    for _ in range(windows):
        level = stay * level + (1 - stay**2) ** 0.5 * draw.normal(0, 1, level.shape)
        found.append(np.exp(level))
    return found


def switched(counts: dict[str, NDArray[Any]], model: str, tokens: int = 4096) -> list[NDArray[Any]]:
    """Windows of a recorded model: four of books, of web pages and of code, `tokens` drawn for each."""
    draw = np.random.default_rng(0)
    found = []
    for domain in ("book", "c4", "github"):
        each = counts[f"{model}, {domain}"]
        shares = each / each.sum(axis=1, keepdims=True)
        pairs = tokens * (8 if each.shape[1] == 64 else 2)
        found += [np.array([draw.multinomial(pairs, row) for row in shares], float) for _ in range(4)]
    return found


def drift(name: str, loads: list[NDArray[Any]], ranks: int, slots: int) -> None:
    """Print, for each way to plan again, the balance over windows and what was fetched a window, in the mean.

    The first window is planned for by none; `moves` are of a plan, from all slots of a layer.
    """
    view = ExpertView(loads[0], ranks, slots)
    few = view.layers * ranks * slots // 50 or 1
    ways: dict[str, tuple[ExpertBalancer | None, int, int | None]] = {
        "in order, never planned": (None, 0, None),
        "floating_copies once": (FloatingCopies(), len(loads), None),
        "eplb, each window": (Eplb(), 1, None),
        "floating_copies, each window": (FloatingCopies(), 1, None),
        "floating_copies, each fourth": (FloatingCopies(), 4, None),
        f"few_moves, {few} a window": (FewMoves(), 1, few),
        f"few_moves, {5 * few} a window": (FewMoves(), 1, 5 * few),
        "few_moves, no limit": (FewMoves(), 1, None),
    }
    best = np.mean([(x.sum(axis=1) / ranks / least_busiest(x, ranks, slots)).mean() for x in loads[1:]])
    print(f"\n{name}: {len(loads)} windows, {view.layers} layers in {ranks * slots} slots, at best {best:.3f}")
    print(f"{'way':32}{'balance':>9}{'worst':>9}{'fetched':>9}")
    for way, (balancer, every, moves) in ways.items():
        placed, balance, fetched = view.standing(), [], 0
        for at, (seen, now) in enumerate(itertools.pairwise(loads)):
            if balancer is not None and at % every == 0:
                after = balancer.rebalance(ExpertView(seen, ranks, slots, placed=placed, moves=moves))
                fetched += int(after.fetched(placed).sum())
                placed = after
            balance.append(float(placed.balance(now).mean()))
        print(f"{way:32}{np.mean(balance):9.3f}{min(balance):9.3f}{fetched / len(balance):9.1f}")


def main() -> None:
    """Run what the options ask for."""
    options = argparse.ArgumentParser()
    options.add_argument("--peer", type=Path)
    options.add_argument("--data", type=Path)
    options.add_argument("--drift", action="store_true")
    given = options.parse_args()
    if given.drift:
        for stay in (0.99, 0.9, 0.5):
            drift(f"planted, correlation {stay}", walked(stay), RANKS, SLOTS)
        for model, ranks, slots in (("olmoe-1b-7b", 8, 9), ("mixtral-8x7b", 4, 3)) if given.data else ():
            drift(f"{model}, books, web, code", switched(recorded(given.data), model), ranks, slots)
        return
    tried = balancers(given.peer)
    for name, counts in drawn().items():
        compare(name, ExpertView(counts, RANKS, SLOTS, NODES, GROUPS), tried)
    for name, counts in (recorded(given.data) if given.data else {}).items():
        ranks, slots = (8, 9) if counts.shape[1] == 64 else (4, 3)
        compare(name, ExpertView(counts, ranks, slots), tried)


if __name__ == "__main__":
    main()
