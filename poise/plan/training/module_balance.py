"""How evenly trees of modules are cut, Transformers and collaborative filtering, beside the optimum."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from poise.core.model import Model
from poise.cost.training.flops import layer_weights, scores_width
from poise.pipeline.even_cut import even_cut
from poise.plan.training.module_tree import Module, partition


class Balance(NamedTuple):
    """The fullest device's cost by the tree, by the best runs of leaves, and by as many layers each, 1 being all.

    memory, time: the largest part of either that one device has.
    """

    tree: float
    best: float
    equal: float
    memory: float
    time: float


def transformer(model: Model, sequence: int) -> Module:
    """Embedding, layers of attention and a feed-forward block, and the head; weights, and FLOP of a token's forward."""
    table = float(model.vocab * model.hidden)
    attention = Module(
        "attention", model.attention_parameters,
        2.0 * (model.attention_parameters + scores_width(model) * sequence),
    )  # fmt: skip
    width = layer_weights(model) - model.attention_parameters
    layer = Module.of("layer", [attention, Module("block", width, 2.0 * width)])
    layers = Module.of("layers", [layer] * model.layers)
    return Module.of("model", [Module("embedding", table, 0.0), layers, Module("head", 0.0, 2.0 * table)])


def filtering(users: int, items: int, width: int, inner: tuple[int, ...]) -> Module:
    """Neural collaborative filtering (He et al., arXiv 1708.05031, 3.4): two pairs of tables, a product of the first,
    layers of `inner` columns over the second, and an output over both.
    """
    first = [Module(name, float(rows * width), 1.0 * width) for name, rows in (("user", users), ("item", items))]
    half = inner[0] // 2
    second = [Module(name, float(rows * half), 1.0 * half) for name, rows in (("user", users), ("item", items))]
    layers = [
        Module(f"{inputs}x{outputs}", float(inputs * outputs), 2.0 * inputs * outputs)
        for inputs, outputs in pairwise(inner)
    ]
    top = Module("output", float(inner[-1] + width), 2.0 * (inner[-1] + width))
    return Module.of(
        "model", [Module.of("factors", first), Module.of("tables", second), Module.of("layers", layers), top]
    )


def balance(root: Module, devices: int, weight: float) -> Balance:
    """The cut of a tree over devices beside the best that runs of leaves allow."""
    stages = partition(root, devices, weight)
    leaves = list(root.leaves())
    costs = [each.cost(root, weight) for each in leaves]

    def dearest(runs: list[tuple[int, int]]) -> float:
        return max(sum(costs[start:end]) for start, end in runs)

    best = dearest(even_cut(costs, min(devices, len(leaves))))
    count = len(leaves)
    even = [(count * at // devices, count * (at + 1) // devices) for at in range(devices)]
    return Balance(
        tree=max(sum(each.cost(root, weight) for each in stage) for stage in stages), best=best, equal=dearest(even),
        memory=max(sum(each.memory for each in stage) for stage in stages) / root.memory,
        time=max(sum(each.time for each in stage) for stage in stages) / root.time,
    )  # fmt: skip


def transformer_balance(model: Model, devices: int, weight: float, sequence: int = 2048) -> Balance:
    """The balance of a Transformer over pipeline stages."""
    return balance(transformer(model, sequence), devices, weight)


def filtering_balance(devices: int, weight: float, users: int = 138_493, items: int = 26_744) -> Balance:
    """That of collaborative filtering with 64 factors and layers from 256 to 64, the sizes of MovieLens-20M."""
    return balance(filtering(users, items, 64, (256, 256, 128, 64)), devices, weight)
