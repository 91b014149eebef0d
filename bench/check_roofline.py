"""Print how far the roofline's defaults are from end-to-end measurements that they were not fitted to.

Reads the fidelity set and the vLLM runs under POISE_DATA (default ../shared/data). A ratio is predicted over measured.

    python bench/check_roofline.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import polars as pl

from poise.core.estimate import Chunk, StepShape
from poise.core.model import Model
from poise.core.spec import Device, Format, Pool
from poise.cost import Roofline

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
C = pl.col
MODELS = {
    "Llama-3-8B": Model("Llama-3-8B", 32, 4096, 32, 8, 128, 128256, 14336, 131072),
    "Mistral-7B": Model("Mistral-7B", 32, 4096, 32, 8, 128, 32000, 14336, 32768),
    "Qwen2-7B": Model("Qwen2-7B", 28, 3584, 28, 4, 128, 152064, 18944, 131072),
    "Llama-3-70B": Model("Llama-3-70B", 80, 8192, 64, 8, 128, 128256, 28672, 131072),
    "Qwen3-32B": Model("Qwen3-32B", 64, 5120, 64, 8, 128, 151936, 25600, 40960),
}
H100 = Device("H100", "", 989e12, 80 * 10**9, 3.35e12, 1979e12, scaleup_bw=450e9, scaleup_domain=8, host_bw=64e9)
B200 = Device("B200", "", 2250e12, 180 * 10**9, 8e12, 4500e12, fp4_flops=9e15, scaleup_bw=900e9, scaleup_domain=8)
RTX_4090 = Device("RTX 4090", "", 165.15e12, 24 * 10**9, 1.008e12, host_bw=32e9)
RTX_PRO = Device("RTX PRO 6000", "", 467.8e12, 96 * 10**9, 1.792e12, host_bw=64e9)


class Case(NamedTuple):
    """One measurement in milliseconds per output token, and what the roofline says."""

    name: str
    measured: float
    predicted: float


def generation(pool: Pool, prompt: int, output: int, batch: int, *, with_prompt: bool) -> float:
    """Milliseconds per output token of `batch` requests decoded together, their prompts' time included if asked."""
    estimator = Roofline().build(pool)
    piece = estimator.step(StepShape(batch))
    total = (output - 1) * (piece.base + piece.per_kv * batch * (prompt + output / 2))
    if with_prompt:
        total += estimator.step(StepShape(0, (Chunk(prompt, 0),) * batch)).base
    return total / (output if with_prompt else output - 1) / 1e9


def single_stream(e2e: pl.DataFrame) -> Iterator[Case]:
    """One request at a time on H100s: LLM-Inference-Bench gives (input + output tokens) / total time."""
    names = {"Meta-Llama-3-8B": "Llama-3-8B", "Mistral-7B-v0.1": "Mistral-7B", "Qwen2-7B": "Qwen2-7B"}
    rows = e2e.filter(
        C("source") == "llm_inference_bench",
        C("concurrency_or_rate") == "static batch 1",
        C("engine").is_in(["vLLM", "TensorRT-LLM"]),
        C("gpu").str.starts_with("H100"),
        C("model").is_in([*names, "Meta-Llama-3-70B"]),
        C("value") < 2000,  # one run per model and layout reports 100 times its neighbours
    )
    for row in rows.iter_rows(named=True):
        model = MODELS[names.get(row["model"], "Llama-3-70B")]
        prompt, output = int(row["isl"]), int(row["osl"])
        measured = (prompt + output) / row["value"] / output * 1e3
        predicted = generation(Pool(model, H100, tensor=row["tp"]), prompt, output, 1, with_prompt=True)
        yield Case(f"{row['engine']} {model.name} H100 tensor {row['tp']}", measured, predicted)


def four_at_once(e2e: pl.DataFrame) -> Iterator[Case]:
    """Llama-3.1-70B, quantised, four requests at once on H100 and B200 (AIConfigurator's silicon sample)."""
    rows = e2e.filter(
        C("source") == "aic_silicon_sample",
        C("metric") == "tpot_ms",
        C("model") == "Llama-3.1-70B",
        C("concurrency_or_rate") == "concurrency=4",
    )
    for row in rows.iter_rows(named=True):
        weights: Format = "fp4" if row["precision"].startswith("fp4") else "fp8"
        device = H100 if row["gpu"].startswith("H100") else B200
        pool = Pool(MODELS["Llama-3-70B"], device, tensor=row["tp"], weights=weights)
        prompt, output = int(0.9 * row["isl"]), int(0.9 * row["osl"])  # lengths are drawn from 80 % to 100 %
        predicted = generation(pool, prompt, output, 4, with_prompt=False)
        yield Case(f"{row['engine']} 70B {weights} {device.name} tensor {row['tp']}", row["value"], predicted)


def busy_decodes() -> Iterator[Case]:
    """Seconds of vLLM 0.19 runs without prompt work; only the RTX 4090's run has a gauge of its KV total."""
    runs = (
        ("rtx4090__llama-3.1-8b", Pool(MODELS["Llama-3-8B"], RTX_4090)),
        ("rtxpro6000__llama-3.1-8b", Pool(MODELS["Llama-3-8B"], RTX_PRO)),
        ("rtxpro6000__qwen3-32b", Pool(MODELS["Qwen3-32B"], RTX_PRO, tensor=2)),
    )
    for name, pool in runs:
        folder = DATA / "vllm_end_to_end" / name
        kept = (json.loads((folder / "meta.json").read_text()).get("kv_cache") or {}).get("num_kv_tokens", 0)
        ticks = pl.read_csv(folder / "timeseries.csv.gz").filter(C("prompt_throughput") == 0, C("running") >= 8)
        estimator = Roofline().build(pool)
        for row in ticks.iter_rows(named=True):
            held = kept * row["kv_cache_pct"] / 100 or row["running"] * 1200  # mean prompt 858, half of mean output 653
            piece = estimator.step(StepShape(row["running"]))
            step_ms = (piece.base + piece.per_kv * held) / 1e9
            yield Case(f"vLLM {name} decoding", row["running"] / row["gen_throughput"] * 1e3, step_ms)


def main() -> None:
    """One line per condition: median milliseconds measured and predicted, and the median and range of their ratio."""
    e2e = pl.read_csv(DATA / "fidelity" / "serving_e2e.csv", infer_schema_length=None)
    groups: dict[str, list[Case]] = {}
    for case in (*single_stream(e2e), *four_at_once(e2e), *busy_decodes()):
        groups.setdefault(case.name, []).append(case)
    for name, cases in sorted(groups.items()):
        ratios = sorted(case.predicted / case.measured for case in cases)
        measured, predicted = median(c.measured for c in cases), median(c.predicted for c in cases)
        spread = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} runs)"
        print(f"{name:44s} {measured:7.2f} ms   {predicted:7.2f} ms   {spread}")
    errors = [abs(case.predicted / case.measured - 1) for cases in groups.values() for case in cases]
    print(f"median absolute error {median(errors):.1%} over {len(errors)} runs")


if __name__ == "__main__":
    main()
