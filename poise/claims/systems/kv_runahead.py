"""KV-Runahead: a prompt over a chain of devices against tensor and sequence parallelism."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.kv_runahead import Chain, least

CASES = (("llama-7b", 4, 12_288, 1.42), ("falcon-7b", 8, 8192, 1.63))
LENGTHS = (1024, 2048, 4096, 8192, 12_288, 16_384)
LINKS = (10e9, 300e9)


def measure(bench: Bench) -> Findings:
    """Nothing is simulated: models × lengths × links, each way to cut a prompt."""
    found = {
        (name, devices, link): {tokens: _times(_pool(name, devices, link), tokens) for tokens in LENGTHS}
        for name, devices, *_ in CASES for link in LINKS
    }  # fmt: skip
    at = [(name, devices, tokens, paper, found[name, devices, 300e9][tokens]) for name, devices, tokens, paper in CASES]
    gains = [tensor / uneven for *_, (uneven, _, tensor) in at]
    ordered = {
        (name, devices): [tokens for tokens, (uneven, even, tensor) in found[name, devices, 300e9].items()
                          if tokens >= 8192 and uneven < even < tensor]
        for name, devices, *_ in CASES
    }  # fmt: skip
    short = found["falcon-7b", 8, 300e9]
    slow = [row[tokens][2] / row[tokens][0] for (*_, link), row in found.items() if link == 10e9 for tokens in LENGTHS]
    reverses = all(tensor < min(uneven, even) for uneven, even, tensor in (short[1024], short[2048]))
    ideal = {devices: 1 / least(1, devices) for devices in (2, 4, 8)}
    right = all(len(each) == 3 for each in ordered.values())
    ahead = ", ".join(f"{tokens:,}: {short[tokens][2] / short[tokens][0]:.2f} times" for tokens in LENGTHS[:3])
    criteria = [
        Answer(
            "cases",
            "; ".join(
                f"{name} on {n} at {tokens:,}: {gain:.2f} times"
                for (name, n, tokens, *_), gain in zip(at, gains, strict=True)
            ),
            list(gains),
        ),
        Answer(
            "size",
            ", ".join(f"{gain - 1:.0%}" for gain in gains),
            [(gain - 1) / (paper - 1) for gain, (*_, paper, _) in zip(gains, at, strict=True)],
        ),
        Answer(
            "cuts",
            "; ".join(
                f"{name} on {n}: at {', '.join(map(str, each)) or 'none'} of 8192, 12288, 16384"
                for (name, n), each in ordered.items()
            ),
            right,
        ),
        Answer("short", ahead, reverses),
        Answer(
            "links",
            f"{min(slow):.1f} to {max(slow):.1f} times",
            all(
                found[name, n, 10e9][tokens][2] / found[name, n, 10e9][tokens][0]
                > found[name, n, 300e9][tokens][2] / found[name, n, 300e9][tokens][0]
                for name, n, *_ in CASES
                for tokens in LENGTHS
            ),
        ),
        Answer(
            "bound",
            ", ".join(f"{each:.2f}" for each in ideal.values()),
            [abs(ideal[n] / paper - 1) for n, paper in ((2, 2.67), (4, 6.4), (8, 14.2))],
        ),
    ]
    lines = {
        f"{name} on {n}, {link / 1e9:.0f} GB/s": [Point(at, tensor / uneven) for at, (uneven, _, tensor) in row.items()]
        for (name, n, link), row in found.items()
    }  # fmt: skip
    return Findings(criteria, [Curve("Times shorter than tensor parallelism", "tokens", "number", lines)])


def _pool(name: str, devices: int, link: float) -> Pool:
    return Pool(model(name), replace(device("A100"), scaleup_bw=link), tensor=devices)


def _times(pool: Pool, tokens: int) -> tuple[float, float, float]:
    """Seconds by uneven cuts, even cuts and tensor parallelism."""
    chain = Chain(pool)
    tensor = Roofline().build(pool).step(StepShape(0, (Chunk(tokens, 0),))).base / 1e12
    return chain.prefill_s(chain.uneven(tokens)), chain.prefill_s(chain.even(tokens)), tensor
