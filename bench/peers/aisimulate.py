"""AISimulate (Python package `aisimulate`): `predict` on its engine stack, with its operator times of vLLM on an H100.

Environment: `AISIMULATE_PY`, the python of a virtual environment that has it. Loads without prefixes come from its own
Poisson source, which costs it half of what a file does; the others are the very arrivals that Poise simulates. Its
engine stack spreads requests over replicas round robin and has no other router; its blocks have 64 tokens, Poise's 16.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from peers.load import BLOCK, OUTPUT, PROMPT, Load
from peers.process import Failed, Spent, spend, written


class AISimulate:
    """tool: its console script.  folder: where inputs and results are written."""

    name = "aisimulate"
    most = 1 << 60

    def __init__(self, tool: Path, folder: Path) -> None:
        self.tool = tool
        self.folder = folder

    @staticmethod
    def find(folder: Path) -> AISimulate | None:
        """The one that the environment names."""
        python = os.environ.get("AISIMULATE_PY")
        return AISimulate(Path(python).absolute().with_name("aisimulate"), folder) if python else None

    def router(self, load: Load, router: str) -> str:
        """Round robin, whatever Poise routes by: the fewest decisions that a peer can make."""
        return "round_robin"

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Replay the load's arrivals once."""
        traffic = self._traffic(load, requests)
        config = self.folder / "aisimulate.json"
        config.write_text(json.dumps(_config(load, traffic)), encoding="utf-8")  # JSON is YAML
        out = self.folder / "aisimulate"
        cpu_s, rss, _ = spend(
            [
                str(self.tool),
                "predict",
                "--stack",
                "engine",
                "-c",
                str(config),
                "--output-dir",
                str(out),
                "--overwrite",
            ],
            self.folder,
            HF_HUB_OFFLINE="1",
        )
        result = json.loads((out / "prediction.json").read_text(encoding="utf-8"))
        result = result.get("summary", result)
        if result["completed_requests"] != requests:
            raise Failed(f"aisimulate finished {result['completed_requests']} of {requests} requests of {load.name}")
        figures = {
            "ttft_p50_s": result["median_ttft_ms"] / 1e3,
            "tpot_p50_s": result["median_tpot_ms"] / 1e3,
            "hit_rate": result["prefix_cache_reused_ratio"],
            "wall_s": result.get("wall_time_ms", 0.0) / 1e3,
        }
        return Spent(requests, cpu_s, rss, figures)

    def _traffic(self, load: Load, requests: int) -> dict[str, Any]:
        """The load as its own Poisson source, or as a trace at its own stamps where requests share prefixes."""
        if load.kind == "poisson":
            source: dict[str, Any] = {"type": "synthetic", "input_tokens": PROMPT, "output_tokens": OUTPUT}
            arrivals = {"type": "poisson", "requests_per_second": load.rate * load.replicas, "seed": 42}
            return {"source": source, "load": arrivals, "stop": {"requests": requests}}
        trace = written(load, requests, "mooncake", self.folder)
        block = 512 if load.kind == "mooncake" else BLOCK
        source = {"type": "trace", "format": "mooncake", "paths": [str(trace)], "block_size": block}
        return {"source": source, "load": {"type": "trace_timestamps", "speedup": 1.0}}


def _config(load: Load, traffic: dict[str, Any]) -> dict[str, Any]:
    """The input of `predict`: vLLM's defaults for Llama-3.1-8B on H100s."""
    worker = {
        "parallelism": {"replicas": load.replicas, "tensor": 1},
        "scheduler": {"max_batched_tokens": 8192, "max_sequences": 256},
        "kv_cache": {"block_size": 64, "prefix_caching": True},
    }
    return {
        "traffic": traffic,
        "engine": {
            "mode": "aggregated",
            "model": "meta-llama/Meta-Llama-3.1-8B",
            "hardware": "h100_sxm",
            "backend": "vllm",
            "workers": {"aggregated": worker},
        },
    }
