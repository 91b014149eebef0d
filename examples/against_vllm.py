"""Three recorded runs of vLLM 0.19, simulated from their arrivals and lengths: mean latencies beside the real ones.

The recordings (casys-kaist/LLMServingSim, MIT) lie under POISE_DATA, by default ../shared/data beside the repository.
"""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np

import poise as ps
from poise.catalogue import device
from poise.core.units import SECOND

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / os.environ.get("POISE_DATA", "../shared/data") / "vllm_end_to_end"
PRO = replace(device("RTX-PRO-6000"), pcie="host")
"""Its runs state a link of 16 GB/s, which is what PCIe carries through the host's memory."""

RUNS = (
    ("rtx4090__llama-3.1-8b", device("RTX-4090"), "llama-3.1-8b", 1),
    ("rtxpro6000__llama-3.1-8b", PRO, "llama-3.1-8b", 1),
    ("rtxpro6000__qwen3-32b", PRO, "qwen3-32b", 2),
)


def recorded(folder: Path) -> list[dict[str, float]]:
    """The requests of a run in the order in which the engine got them."""
    with gzip.open(folder / "requests.jsonl.gz", "rt") as lines:
        return sorted(map(json.loads, lines), key=lambda row: row["queued_ts"])


def workload(rows: list[dict[str, float]]) -> ps.workload.Workload:
    """The same arrivals and lengths."""
    arrival = [round((row["queued_ts"] - rows[0]["queued_ts"]) * SECOND) for row in rows]
    prompt, output = ([row[name] for row in rows] for name in ("input_toks", "output_toks"))
    return ps.workload.Workload(np.array(arrival, "i8"), np.array(prompt, "i4"), np.array(output, "i4"))


print("seconds: measured, simulated (simulated / measured); TPOT in milliseconds")
for name, accelerator, model, tensor in RUNS:
    meta = json.loads((DATA / name / "meta.json").read_text())
    asked, kv = meta["engine_kwargs"], meta.get("kv_cache") or {}
    engine = ps.Engine(
        token_budget=asked["max_num_batched_tokens"],
        max_sequences=asked["max_num_seqs"],
        kv_blocks=kv.get("num_gpu_blocks", 0),
    )
    cluster = ps.Cluster.of(accelerator, count=tensor).replicas(1, model=model, tensor=tensor, engine=engine)
    rows = recorded(DATA / name)
    run = ps.simulate(cluster, workload(rows))
    ttft = mean(row["first_token_ts"] - row["queued_ts"] for row in rows)
    tpot = mean((row["last_token_ts"] - row["first_token_ts"]) / max(row["output_toks"] - 1, 1) for row in rows)
    e2e = mean(row["last_token_ts"] - row["queued_ts"] for row in rows)
    pairs = (
        ("TTFT", ttft, run.ttft.mean),
        ("TPOT", tpot * 1e3, run.tpot.mean * 1e3),
        ("E2E", e2e, run.e2e.mean),
    )
    told = "  ".join(f"{what} {real:6.1f} {said:6.1f} ({said / real:.2f})" for what, real, said in pairs)
    print(f"{name:25}{told}")
