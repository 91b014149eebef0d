"""The New LLM Bottleneck: latent attention and experts lie near a device's ridge, as attention never did."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.cost.intensity import decode_attention, decode_intensity, decode_s, expert_intensity, expert_knee, ridge

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
        Answer(
            "intensity",
            ", ".join(f"{name} {each:.0f}" for name, each in found.items()) + f"; ridge {ridge(b200):.0f}",
            found["MHA"] == 1 and found["GQA, 8 groups"] == 16 and 100 <= found["MLA"] <= 242 < ridge(b200) < 282,
        ),
        Answer("expanded", f"{slower:.0f} times at the roofline, {operations:.0f} times the operations", slower),
        Answer(
            "bytes",
            f"{time_ratio:.1f} times as long, {bytes_ratio:.1f} times as many bytes",
            abs(time_ratio / bytes_ratio - 1),
        ),
        Answer(
            "knee",
            f"{knee:,.0f}, where it has {expert_intensity(latent, knee):.0f} operations per byte",
            abs(knee - 281.25 * 32),
        ),
    ]
    lines = {
        name: [Point(context, 1e6 * decode_s(shape, b200, context)) for context in CONTEXTS]
        for name, shape in (("MHA", plain), ("GQA, 8 groups", wide), ("MLA", latent))
    }
    return Findings(
        criteria, [Curve("Decode attention of a request and layer on B200, µs", "context", "number", lines)]
    )
