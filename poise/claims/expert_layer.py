"""One layer of experts on ranks, with a load and a placement: what its slowest rank takes, and what its fullest holds.

A closed form. A rank computes each expert's tokens in a product that takes the longer of its arithmetic and of reading
its weights, with the fractions of peaks that fused layers of experts reach (`poise.cost.efficiency`). Tokens come and
go over its link, and so do weights that a placement sends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poise.core.spec import Device
from poise.cost.efficiency import Efficiencies
from poise.experts import ExpertPlacement, ExpertView
from poise.policies.rebalance.llep import Llep

BYTES = 2
"""Of a weight and of a value: bfloat16."""
MATRICES = 3
"""Of an expert: gate, up and down."""


class Layer(NamedTuple):
    """A layer with and without spilling.

    native_s, spilled_s: seconds of the slowest rank.  native_bytes, spilled_bytes: of the fullest rank, its experts'
    weights, and tokens with what is computed of them.  imbalance, left: the largest load over the mean, before and
    after.  sent: experts whose weights are sent.
    """

    native_s: float
    spilled_s: float
    native_bytes: float
    spilled_bytes: float
    imbalance: float
    left: float
    sent: int


def spilled(
    device: Device, tokens: int, part: float, *, experts: int = 128, active: int = 4, hot: int = 4, ranks: int = 8,
    hidden: int = 2880, inner: int = 2880, alpha: float = 1.1,
) -> Layer:  # fmt: skip
    """A layer in which a part of all pairs goes to the `hot` first experts, which are on one rank, the rest evenly.

    tokens: of each rank.  part: of the pairs of a token and an expert.  The sizes are gpt-oss-120b's.
    """
    pairs = tokens * ranks * active
    counts = np.full((1, experts), pairs * (1 - part) / (experts - hot))
    counts[0, :hot] = pairs * part / hot
    view = ExpertView(counts, ranks, experts // ranks)
    native, found = view.standing(), Llep(alpha=alpha).rebalance(view)
    before, after = (_rank(device, each, view, hidden, inner) for each in (native, found))
    return Layer(
        *(before[0], after[0], before[1], after[1]),
        imbalance=float(1 / native.balance(counts)[0]),
        left=float(1 / found.balance(counts)[0]),
        sent=int(found.fetched(native).sum()),
    )


def _rank(device: Device, placement: ExpertPlacement, view: ExpertView, hidden: int, inner: int) -> tuple[float, float]:
    """Seconds of the slowest rank, and bytes of the fullest."""
    use = Efficiencies()
    pairs = placement.weights[0] * view.counts[0]
    size = MATRICES * hidden * inner * BYTES
    arithmetic = 2 * MATRICES * hidden * inner * pairs / (device.bf16_flops * use.moe_gemm)
    reading = np.where(pairs > 0, size / (device.memory_bw * use.moe_stream), 0.0)
    computed = np.maximum(arithmetic, reading).sum(axis=1)
    link = device.scaleup_bw * use.link
    exchanged = 2 * pairs.sum(axis=1) * hidden * BYTES / link
    fetched = placement.fetched(view.standing())[0]
    sending = np.bincount(view.standing().holds[0].argmax(axis=0), weights=fetched.sum(axis=0), minlength=view.ranks)
    weights = np.maximum(fetched.sum(axis=1), sending) * size / link
    values = pairs.sum(axis=1) * (2 * hidden + MATRICES * inner) * BYTES
    held = (placement.holds[0] > 0).sum(axis=1) * size + values
    return float((computed + exchanged).max() + weights.max()), float(held.max())
