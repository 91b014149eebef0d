"""Print the table from which the defaults of `poise.cost.Roofline` come: measured over ideal, by operator and device.

Reads `gpu_op_profiles` (AIConfigurator performance database, Apache-2.0) and `vllm_layer_profiles` (LLMServingSim,
MIT) under POISE_DATA (default ../shared/data). A figure is the median over the shapes named in its row, all frameworks
together, per device; the default is the median over devices, so that no device, engine or model is fitted on its own.

    python bench/fit_roofline.py
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import polars as pl

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
C = pl.col
DEVICES: dict[str, dict[str, float]] = {  # dense peaks, memory and link bandwidth (hardware.csv of the fidelity set)
    "a100_sxm": {"bf16": 312e12, "int8": 624e12, "bw": 2.039e12, "link": 300e9},
    "h100_sxm": {"bf16": 989e12, "fp8": 1979e12, "bw": 3.35e12, "link": 450e9},
    "h200_sxm": {"bf16": 989e12, "fp8": 1979e12, "bw": 4.8e12, "link": 450e9},
    "b200_sxm": {"bf16": 2250e12, "fp8": 4500e12, "fp4": 9000e12, "bw": 8e12, "link": 900e9},
}
FORMATS: dict[str, tuple[str, float]] = {  # measured name: (peak it runs at, bytes per weight)
    "bfloat16": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "nvfp4": ("fp4", 0.5625),
    "int4_wo": ("bf16", 0.53125),
    "sq": ("int8", 1.0),
}
SHORT = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4", "int4_wo": "int4", "sq": "int8"}
Rows = dict[str, dict[str, float]]


def profile(device: str, operator: str) -> pl.DataFrame:
    """One table of measured latencies, categories as text and `s` in seconds."""
    table = pl.read_parquet(DATA / "gpu_op_profiles" / device / f"{operator}.parquet")
    return table.with_columns(pl.col(pl.Categorical).cast(pl.String), s=C("latency").cast(pl.Float64) * 1e-3)


def middle(table: pl.DataFrame, value: pl.Expr) -> float | None:
    """The median of `value`, None where no shape is left."""
    return None if table.is_empty() else float(table.select(value.median()).item())


def gemm(device: str, peaks: dict[str, float]) -> dict[str, float | None]:
    """Large GEMMs against the peak, thin ones against bandwidth, and the fixed part of thin small ones."""
    found: dict[str, float | None] = {}
    table = profile(device, "gemm")
    for name, (path, size) in FORMATS.items():
        if path not in peaks:
            continue
        part = table.filter(C("gemm_dtype") == name).with_columns(
            flops=2.0 * C("m") * C("n") * C("k"), bytes=size * C("n") * C("k")
        )
        large = part.filter(C("flops") >= 1e12, C("m") >= 1024)
        thin = part.filter(C("m") <= 16, C("bytes") >= 256e6)
        small = part.filter(C("m") <= 16, C("bytes") >= 4e6, C("bytes") <= 64e6)
        found[f"gemm_{SHORT[name]}"] = middle(large, C("flops") / peaks[path] / C("s"))
        stream = found[f"stream_{SHORT[name]}"] = middle(thin, C("bytes") / peaks["bw"] / C("s"))
        if stream:
            found[f"gemm_fixed_us_{SHORT[name]}"] = middle(small, (C("s") - C("bytes") / (peaks["bw"] * stream)) * 1e6)
    return found


def attention(device: str, peaks: dict[str, float]) -> dict[str, float | None]:
    """Prefill against the BF16 peak, decode against bandwidth; heads of 128, at most 16 queries a KV head."""
    whole = (C("window_size").is_null() | (C("window_size") <= 0)) & (C("head_dim") == 128)
    prefill = profile(device, "context_attention").filter(whole, C("attn_dtype") == "bfloat16")
    pairs = C("isl") * C("step") + C("isl") * (C("isl") + 1) / 2
    prefill = prefill.with_columns(flops=4.0 * C("batch_size") * C("num_heads") * C("head_dim") * pairs)
    large = prefill.filter(C("flops") >= 1e12)
    decode = profile(device, "generation_attention").filter(whole, C("num_heads") <= 16 * C("num_key_value_heads"))
    kept = C("batch_size") * (C("isl") + C("step"))
    found = {"attention_prefill": middle(large, C("flops") / peaks["bf16"] / C("s"))}
    for name, size in (("bfloat16", 2.0), ("fp8", 1.0)):
        part = decode.filter(C("kv_cache_dtype") == name)
        part = part.with_columns(bytes=2.0 * size * kept * C("num_key_value_heads") * C("head_dim"))
        big, tiny = part.filter(C("bytes") >= 256e6), part.filter(C("bytes") <= 1e6)
        found[f"attention_decode_{SHORT[name]}"] = middle(big, C("bytes") / peaks["bw"] / C("s"))
        if name == "bfloat16":
            found["attention_fixed_us"] = middle(tiny, C("s") * 1e6)
    return found


def latent(device: str, peaks: dict[str, float]) -> dict[str, float | None]:
    """Absorbed MLA decode: few heads against bandwidth, many against the peak (576 values, 1088 products a head)."""
    table = profile(device, "generation_mla").filter(C("kv_cache_dtype") == "bfloat16")
    kept = C("batch_size") * (C("isl") + C("step"))
    table = table.with_columns(bytes=2.0 * 576 * kept, flops=2.0 * 1088 * kept * C("num_heads"))
    few = table.filter(C("num_heads") <= 16, C("bytes") >= 256e6)
    many = table.filter(C("num_heads") == 128, C("bytes") >= 256e6)
    return {
        "mla_decode": middle(few, C("bytes") / peaks["bw"] / C("s")),
        "mla_decode_flops": middle(many, C("flops") / peaks["bf16"] / C("s")),
    }


def experts(device: str, peaks: dict[str, float]) -> dict[str, float | None]:
    """Fused MoE layers, balanced tokens: expected distinct experts against bandwidth, all tokens against peak."""
    table = profile(device, "moe").filter(C("distribution") == "balanced", ~C("kernel_source").str.contains("nongated"))
    found: dict[str, float | None] = {}
    for name in ("bfloat16", "fp8", "fp8_block", "nvfp4"):
        path, size = FORMATS["fp8" if name == "fp8_block" else name]
        if path not in peaks:
            continue
        width = 3.0 * C("hidden_size") * C("inter_size") / C("moe_tp_size")
        share = C("topk") / C("num_experts")
        touched = C("num_experts") / C("moe_ep_size") * (1 - (1 - share) ** C("num_tokens"))
        part = table.filter(C("moe_dtype") == name).with_columns(
            read=touched * width * size / peaks["bw"],
            math=2.0 * width * C("num_tokens") * C("topk") / C("moe_ep_size") / peaks[path],
        )
        label = SHORT.get(name, "fp8block")
        found[f"moe_stream_{label}"] = middle(
            part.filter(C("read") > 3 * C("math"), C("read") > 1e-4), C("read") / C("s")
        )
        found[f"moe_gemm_{label}"] = middle(
            part.filter(C("math") > 2 * C("read"), C("math") > 3e-4), C("math") / C("s")
        )
        tiny = part.filter(C("read") < 1e-5, C("math") < 1e-5)
        found[f"moe_fixed_us_{label}"] = middle(tiny, (C("s") - pl.max_horizontal("read", "math")) * 1e6)
    return found


def collectives(device: str, peaks: dict[str, float]) -> dict[str, float | None]:
    """Engines' all-reduce kernels in a CUDA graph: large messages against the link, and the time of small ones."""
    own = profile(device, "custom_allreduce").filter(~C("kernel_source").str.contains("eager"))
    wire = 2.0 * (C("num_gpus") - 1) / C("num_gpus") * 2 * C("message_size")
    return {
        "link_efficiency": middle(own.filter(C("message_size") >= 1 << 26), wire / peaks["link"] / C("s")),
        "collective_fixed_us": middle(own.filter(C("message_size") <= 1024), C("s") * 1e6),
    }


def engine_layers() -> Rows:
    """What vLLM runs beside GEMMs and attention: one such kernel on one token, and the sampler by sequences."""
    folder = DATA / "vllm_layer_profiles"
    dense = pl.read_parquet(folder / "dense.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))
    light = dense.filter(C("tokens") == 1, C("layer").is_in(["layernorm", "rotary_emb", "act_fn", "qk_norm"]))
    sampler = pl.read_parquet(folder / "per_sequence.parquet").filter(C("layer").cast(pl.String) == "sampler")
    rows: Rows = {"light_kernel_us": {}, "sample_fixed_us": {}, "sample_us_per_sequence": {}}
    for gpu in ("RTX4090", "RTXPRO6000"):
        one = sampler.filter(C("gpu").cast(pl.String) == gpu)
        first = middle(one.filter(C("sequences") == 1), C("time_us")) or 0.0
        last = middle(one.filter(C("sequences") == 256), C("time_us")) or 0.0
        rows["light_kernel_us"][gpu] = middle(light.filter(C("gpu") == gpu), C("time_us")) or 0.0
        rows["sample_fixed_us"][gpu] = first
        rows["sample_us_per_sequence"][gpu] = (last - first) / 255
    return rows


def table() -> Rows:
    """All figures: coefficient -> device -> value."""
    rows: Rows = {}
    for device, peaks in DEVICES.items():
        for measure in (gemm, attention, latent, experts, collectives):
            for name, value in measure(device, peaks).items():
                if value is not None:
                    rows.setdefault(name, {})[device] = value
    return rows | engine_layers()


def main() -> None:
    """Print one line per coefficient: its median over devices, then the devices."""
    for name, values in sorted(table().items()):
        cells = "  ".join(f"{device} {value:.3f}" for device, value in values.items())
        print(f"{name:26s} {median(values.values()):8.3f}   {cells}")


if __name__ == "__main__":
    main()
