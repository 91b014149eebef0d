"""CloudMatrix384: what an NPU of a supernode decodes under each limit."""

from __future__ import annotations

import numpy as np

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool, Role
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.cloudmatrix import DECODES, Experts, exchange_s, reuse_gain, tpot_s

CLAIM = Claim(
    system="CloudMatrix384",
    paper="arXiv 2506.12708",
    year=2025,
    slot="cost",
    policies=("cloudmatrix",),
    headline="1,943 tokens per second and NPU in decoding within 50 ms (4k prompts), 538 within 15 ms",
    conditions="DeepSeek-R1 in INT8 on 160 NPUs of two dies, EP320, one token of speculation; cache reuse speeds "
    "prefill 1.42 times at half of the prompt and 2.28 times at nine tenths",
    here="arithmetic over the published figures: whether batch and time give the rates, whether one law of "
    "steps and one fixed part of prefill explain all of them; and the roofline's steps of a decode and a prefill pool "
    "as they would be simulated, with an NPU as one rank, bf16 arithmetic and no speculation",
    trust="notes",
)

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
        Criterion(
            "Batch over rate is within the limit under which it was published, in each of five points",
            "limits of 50, 30 and 15 ms",
            "; ".join(f"{each.batch}: {1000 * tpot_s(each):.1f} ms" for each in DECODES),
            all(tpot_s(each) <= LIMITS[each.batch] for each in DECODES), headline=True,
        ),
        Criterion(
            "One law a + b·batch + c·batch·context, no part below 0, is within 15 % of each of them",
            "no law is published",
            f"{1000 * law[0]:.1f} ms + {1e6 * law[1]:.0f} µs · batch + {1e9 * law[2]:.0f} ns · batch · context; "
            f"{off.max():.0%} off at most", bool((law > 0).all() and off.max() <= 0.15),
        ),
        Criterion(
            "With two fifths of prefill fixed, both gains of cache reuse are within 6 %", "1.42 and 2.28 times",
            ", ".join(f"{each:.2f}" for each in gains.values()),
            abs(gains[0.5] / 1.42 - 1) <= 0.06 and abs(gains[0.9] / 2.28 - 1) <= 0.06,
        ),
        Criterion(
            "320 dies hold an expert each, and exchanges over them take less than half of a step of 50 ms",
            "256 routed, 32 shared, 32 redundant; 116 to 152 and 118 to 149 µs up to 256 ranks",
            f"{sum(Experts())} experts on {Experts().npus:.0f} NPUs; {1e6 * both:.0f} µs a layer, "
            f"{58e3 * both:.1f} ms in 58",
            sum(Experts()) == 320 and Experts().npus == 160 and 58 * both < 0.025,
        ),
        *_steps(),
    ]  # fmt: skip
    lines = {
        kind: [Point(ranks, 1e6 * exchange_s(kind, ranks)) for ranks in (8, 16, 32, 64, 128, 256, 320)]
        for kind in ("dispatch", "combine")
    }
    return Findings(criteria, [Curve("Exchange of a layer, µs", "ranks", "number", lines)])


def _pool(npus: int, role: Role) -> Pool:
    """An instance: each NPU has its own requests, and experts are spread over all."""
    kind = device("Ascend-910C")
    return Pool(model("deepseek-r1"), kind, data=npus, expert=npus, role=role, weights="int8")


def _steps() -> list[Criterion]:
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
        Criterion(
            "Decode steps of the pool, as simulated, are within a half of each published time per token",
            "; ".join(f"{each.batch}: {1000 * tpot_s(each):.1f} ms" for each in DECODES),
            "; ".join(f"{batch}: {ratio:.2f} times" for batch, ratio in ratios.items()),
            all(0.5 <= ratio <= 1.5 for ratio in ratios.values()),
        ),
        Criterion(
            "So is what an NPU prefills of 4k prompts", f"{PREFILL_RATE:,} tokens/s without perfect balance",
            f"{rate:,.0f} tokens/s", 0.5 <= rate / PREFILL_RATE <= 1.5,
        ),
    ]  # fmt: skip
