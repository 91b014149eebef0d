"""Recorded routing of mixtures: pairs of experts that tokens had in two layers, as flows that balancers read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts import ExpertView

MODELS = {"olmoe-1b-7b": 64, "mixtral-8x7b": 8}
DOMAINS = ("book", "c4", "github")
LAYERS = (0, 7, 15)
"""Those that were recorded."""

Flows = dict[tuple[str, str], NDArray[Any]]
"""By model and domain."""


def read_flows(file: Path) -> Flows:
    """(2 × experts × experts) pairs between layers 0 and 7, and 7 and 15, of all experts of a token."""
    import polars as pl

    table = pl.read_parquet(file).filter(pl.col("topk") == "topk")
    found: Flows = {}
    for model, experts in MODELS.items():
        for domain in DOMAINS:
            flows = np.zeros((len(LAYERS) - 1, experts, experts))
            for at, (one, other) in enumerate(itertools.pairwise(LAYERS)):
                rows = table.filter(
                    (pl.col("model") == model) & (pl.col("domain") == domain)
                    & (pl.col("layer_from") == one) & (pl.col("layer_to") == other)
                )  # fmt: skip
                pairs = [rows[name].to_numpy() for name in ("expert_from", "expert_to", "count")]
                np.add.at(flows[at], (pairs[0], pairs[1]), pairs[2])
            found[model, domain] = flows
    return found


def read_words(file: Path) -> Flows:
    """(layers × ids × experts) pairs by the id of the token, of the ids that a model has in any domain.

    A domain without such a table is left out (c4 of OLMoE-1B-7B).
    """
    import polars as pl

    table = pl.read_parquet(file)
    found: Flows = {}
    for model, experts in MODELS.items():
        rows = table.filter(pl.col("model") == model)
        known = np.unique(rows["token_id"].to_numpy())
        for domain in DOMAINS:
            each = rows.filter(pl.col("domain") == domain)
            if each.is_empty():
                continue
            words = np.zeros((len(LAYERS), len(known), experts))
            layer = np.searchsorted(LAYERS, each["layer"].to_numpy())
            at = np.searchsorted(known, each["token_id"].to_numpy())
            words[layer, at, each["expert"].to_numpy()] = each["count"].to_numpy()
            found[model, domain] = words
    return found


def view_of(flows: NDArray[Any], ranks: int, nodes: int = 1) -> ExpertView:
    """The view of a balancer, without redundant copies."""
    counts = np.concatenate([flows.sum(axis=2), flows[-1:].sum(axis=1)])
    return ExpertView(counts, ranks, counts.shape[1] // ranks, nodes, flows=flows)
