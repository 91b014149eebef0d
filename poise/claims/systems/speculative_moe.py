"""Speculative MoE on recorded routing: pairs of a token and an expert that leave the token's rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.recorded_routing import DOMAINS, LAYERS, MODELS, read_words
from poise.experts import ExpertPlacement, ExpertView
from poise.policies.kit.token_homes import homes, shuffled
from poise.policies.rebalance.speculative_moe import SpeculativeMoe

RANKS = (2, 4, 8)
BATCH = 8192
"""Tokens of a step on all ranks."""
Words = NDArray[Any]


def exchanged(words: Words, placement: ExpertPlacement, home: NDArray[Any] | None, draw: np.random.Generator) -> Any:
    """(layers,) the part of a batch's pairs that leave their token's rank.

    words: (layers × ids × experts) pairs, from which tokens are drawn.  home: (layers × ids); None: tokens stay where
    their requests are.
    """
    found = []
    for layer, each in enumerate(words):
        often = each.sum(axis=1)
        ids = draw.choice(len(often), BATCH, p=often / often.sum())
        rank = (
            draw.integers(placement.ranks, size=BATCH) if home is None else shuffled(home[layer, ids], placement.ranks)
        )
        part = each[ids] / often[ids, None]
        found.append(1 - float((part * placement.weights[layer][rank]).sum() / part.sum()))
    return np.array(found)


def measure(bench: Bench) -> Findings:
    """Models × domains × ranks: planned from one half of the tokens, tried on the other half and on other domains."""
    draw = np.random.default_rng(0)
    recorded = read_words(bench.file())
    lines: dict[str, list[Point]] = {}
    cut: list[float] = []
    layers: list[Any] = []
    apart: list[float] = []
    other: list[float] = []
    even: list[float] = []
    for (model, domain), words in recorded.items():
        seen = draw.binomial(words.astype(np.int64), 0.5).astype(float)
        unseen = words - seen
        for ranks in RANKS:
            view = ExpertView(seen.sum(axis=1), ranks, MODELS[model] // ranks, words=seen)
            both, before = SpeculativeMoe().group(view), view.standing()
            plain = exchanged(unseen, before, None, draw)
            less = 1 - exchanged(unseen, both.placement, both.home, draw) / plain
            sent = [homes(w @ h.T.astype(float), w.sum(axis=1)) for w, h in zip(seen, before.holds, strict=True)]
            tokens = 1 - exchanged(unseen, before, np.stack(sent), draw) / plain
            if view.slots > 1:  # of single experts there are no groups
                apart.append(float((less - tokens).mean()))
            cut.append(float(less.mean()))
            layers.append(less)
            lines.setdefault(f"{model}, {domain}", []).append(Point(ranks, cut[-1]))
            counts = unseen.sum(axis=1)
            even.append(float((both.placement.balance(counts) / before.balance(counts)).mean()))
            for elsewhere in DOMAINS:
                if elsewhere != domain and (model, elsewhere) in recorded:
                    there = recorded[model, elsewhere]
                    part = exchanged(there, both.placement, both.home, draw) / exchanged(there, before, None, draw)
                    other.append(1 - float(part.mean()))
    by_layer = np.mean(layers, axis=0)
    shown = ", ".join(f"{value:.3f} in layer {layer}" for layer, value in zip(LAYERS, by_layer, strict=True))
    return Findings(
        [
            Answer("less", f"{min(cut):.3f} to {max(cut):.3f}", min(cut)),
            Answer("grouping", f"{min(apart):.3f} to {max(apart):.3f} more", min(apart)),
            Answer("elsewhere", f"{min(other):.3f} to {max(other):.3f}", min(other)),
            Answer("deep", shown, float(by_layer[1:].min())),
            Answer("balance", f"{np.mean(even):.3f} times", float(np.mean(even))),
        ],
        [Curve("Less is exchanged", "ranks", "share", lines)],
    )
