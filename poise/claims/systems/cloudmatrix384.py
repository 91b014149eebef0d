"""CloudMatrix384: what an NPU of a supernode decodes under each limit."""

from __future__ import annotations

import numpy as np

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool, Role
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.cloudmatrix import DECODES, Experts, exchange_s, reuse_gain, tpot_s

LIMITS = {128: 0.05, 112: 0.05, 96: 0.05, 24: 0.03, 8: 0.015}
FIXED = 0.4


PREFILL_NPUS, PREFILL_RATE = 16, 5655


def measure(bench: Bench) -> Findings:
    """Arithmetic, and single steps."""
    rows = np.array([[1.0, each.batch, each.batch * each.context] for each in DECODES])
    times = np.array([tpot_s(each) for each in DECODES])
    law, *_ = np.linalg.lstsq(rows / times[:, None], np.ones(len(times)), rcond=None)
    off = np.abs(rows @ law / times - 1)
    gains = {cached: reuse_gain(cached, FIXED) for cached in (0.5, 0.9)}
    both = exchange_s("dispatch", 320) + exchange_s("combine", 320)
    criteria = [
        Answer(
            "limits",
            "; ".join(f"{each.batch}: {1000 * tpot_s(each):.1f} ms" for each in DECODES),
            all(tpot_s(each) <= LIMITS[each.batch] for each in DECODES),
        ),
        Answer(
            "law",
            f"{1000 * law[0]:.1f} ms + {1e6 * law[1]:.0f} µs · batch + {1e9 * law[2]:.0f} ns · batch · context; "
            f"{off.max():.0%} off at most",
            bool((law > 0).all() and off.max() <= 0.15),
        ),
        Answer(
            "reuse",
            ", ".join(f"{each:.2f}" for each in gains.values()),
            abs(gains[0.5] / 1.42 - 1) <= 0.06 and abs(gains[0.9] / 2.28 - 1) <= 0.06,
        ),
        Answer(
            "experts",
            f"{sum(Experts())} experts on {Experts().npus:.0f} NPUs; {1e6 * both:.0f} µs a layer, "
            f"{58e3 * both:.1f} ms in 58",
            sum(Experts()) == 320 and Experts().npus == 160 and 58 * both < 0.025,
        ),
        *_steps(),
    ]
    lines = {
        kind: [Point(ranks, 1e6 * exchange_s(kind, ranks)) for ranks in (8, 16, 32, 64, 128, 256, 320)]
        for kind in ("dispatch", "combine")
    }
    return Findings(criteria, [Curve("Exchange of a layer, µs", "ranks", "number", lines)])


def _pool(npus: int, role: Role) -> Pool:
    """An instance: each NPU has its own requests, and experts are spread over all."""
    kind = device("Ascend-910C")
    return Pool(model("deepseek-r1"), kind, data=npus, expert=npus, role=role, weights="int8")


def _steps() -> list[Answer]:
    """The roofline's steps beside the published points."""
    npus = int(Experts().npus)
    decode, prefill = Roofline().build(_pool(npus, "decode")), Roofline().build(_pool(PREFILL_NPUS, "prefill"))
    ratios = {}
    for point in DECODES:
        requests = point.batch * npus
        piece = decode.step(StepShape(requests))
        ratios[point.batch] = (piece.base + piece.per_kv * requests * point.context) / SECOND / tpot_s(point)
    chunks = (Chunk(4096, 0),) * (4 * PREFILL_NPUS)
    rate = len(chunks) * 4096 / PREFILL_NPUS / (prefill.step(StepShape(0, chunks)).base / SECOND)
    return [
        Answer(
            "decode", "; ".join(f"{batch}: {ratio:.2f} times" for batch, ratio in ratios.items()), list(ratios.values())
        ),
        Answer("prefill", f"{rate:,.0f} tokens/s", rate / PREFILL_RATE),
    ]
