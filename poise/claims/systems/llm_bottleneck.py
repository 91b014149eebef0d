"""The New LLM Bottleneck: latent attention and experts lie near a device's ridge, as attention never did."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.cost.intensity import decode_attention, decode_intensity, decode_s, expert_intensity, expert_knee, ridge

CLAIM = Claim(
    system="The New LLM Bottleneck",
    paper="arXiv 2507.15465",
    year=2025,
    slot="cost",
    policies=("intensity",),
    headline="decode attention has about 1 operation per byte with MHA and 100 to 200 with MLA; a B200's ridge is 281",
    conditions="closed forms for DeepSeek-V3 and models with MHA and GQA, BF16; B200 at 2,250 TFLOP/s and 8 TB/s",
    here="the same closed forms over the built-in shapes; MHA and GQA with as many query heads",
    trust="notes",
)

CONTEXTS = (1024, 4096, 16_384, 65_536)


def measure(bench: Bench) -> Findings:
    """Nothing is simulated: shapes × formulas."""
    latent = model("deepseek-v3")
    wide = replace(latent, name="GQA, 8 groups", mla=None, heads=128, kv_heads=8, head_dim=128)
    plain = replace(wide, name="MHA", kv_heads=128)
    b200 = replace(device("B200"), bf16_flops=2250e12, memory_bw=8e12)
    found = {each.name: decode_intensity(each) for each in (plain, wide)} | {"MLA": decode_intensity(latent)}
    slower = decode_s(latent, b200, 4096, "expanded") / decode_s(latent, b200, 4096)
    operations = decode_attention(latent, "expanded")[0] / decode_attention(latent)[0]
    bytes_ratio = decode_attention(plain)[1] / decode_attention(latent)[1]
    time_ratio = decode_s(plain, b200, 4096) / decode_s(latent, b200, 4096)
    knee = expert_knee(latent, b200)
    criteria = [
        Criterion(
            "Operations per byte of decode attention: MHA 1, GQA 16, MLA from 100 to 242, all below the ridge",
            "about 1, about 16, about 100 to 200; ridge 281",
            ", ".join(f"{name} {each:.0f}" for name, each in found.items()) + f"; ridge {ridge(b200):.0f}",
            found["MHA"] == 1 and found["GQA, 8 groups"] == 16 and 100 <= found["MLA"] <= 242 < ridge(b200) < 282,
            headline=True,
        ),
        Criterion(
            "Making keys and values again at each step slows decoding by that within a quarter", "103 times",
            f"{slower:.0f} times at the roofline, {operations:.0f} times the operations", 77 <= slower <= 129,
        ),
        Criterion(
            "MHA takes as many times longer than MLA as it reads more bytes: arithmetic binds neither",
            "memory-bound attention is gone with the bytes",
            f"{time_ratio:.1f} times as long, {bytes_ratio:.1f} times as many bytes",
            abs(time_ratio / bytes_ratio - 1) < 0.01,
        ),
        Criterion(
            "An expert reaches the ridge at ridge · experts / active tokens", "B = 281 · 256 / 8 = 9,000",
            f"{knee:,.0f}, where it has {expert_intensity(latent, knee):.0f} operations per byte",
            abs(knee - 281.25 * 32) < 1,
        ),
    ]  # fmt: skip
    lines = {
        name: [Point(context, 1e6 * decode_s(shape, b200, context)) for context in CONTEXTS]
        for name, shape in (("MHA", plain), ("GQA, 8 groups", wide), ("MLA", latent))
    }
    return Findings(
        criteria, [Curve("Decode attention of a request and layer on B200, µs", "context", "number", lines)]
    )
