"""Dynamo replay (Python package `ai-dynamo`): its offline mode with its default engine and built-in step times.

Environment: `DYNAMO_PY`, the python of a virtual environment that has it. It reads the very arrivals that Poise
simulates, from a file in Mooncake's format. Its default engine differs from Poise's in blocks of 64 tokens, which are
the fewer to manage, and in 16,384 of them a replica.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from peers.load import BLOCK, Load
from peers.process import Failed, Spent, spend, written


class Dynamo:
    """python: the interpreter that has `dynamo.replay`.  folder: where arrivals and reports are written."""

    name = "dynamo"
    most = 1 << 60

    def __init__(self, python: str, folder: Path) -> None:
        self.python = python
        self.folder = folder

    @staticmethod
    def find(folder: Path) -> Dynamo | None:
        """The one that the environment names."""
        python = os.environ.get("DYNAMO_PY")
        return Dynamo(python, folder) if python else None

    def router(self, load: Load, router: str) -> str:
        """Its router for prefixes where there are prefixes and Poise looks at them, else round robin."""
        return "kv_router" if router == "prefix_cache" and load.kind != "poisson" else "round_robin"

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Replay the load's arrivals once."""
        trace = written(load, requests, "mooncake", self.folder)
        report = self.folder / "dynamo-report.json"
        report.unlink(missing_ok=True)
        block = 512 if load.kind == "mooncake" else BLOCK
        cpu_s, rss, _ = spend(
            [
                *(self.python, "-m", "dynamo.replay", str(trace), "--trace-format", "mooncake"),
                *("--trace-block-size", str(block), "--replay-mode", "offline", "--router-mode", router),
                *("--num-workers", str(load.replicas), "--report-json", str(report)),
            ],
            self.folder,
            DYN_LOG="error",  # its router logs each decision otherwise, which costs it time
            TRANSFORMERS_VERBOSITY="error",
        )
        result = json.loads(report.read_text(encoding="utf-8"))
        if result["completed_requests"] != requests:
            raise Failed(f"dynamo finished {result['completed_requests']} of {requests} requests of {load.name}")
        figures = {
            "ttft_p50_s": result["median_ttft_ms"] / 1e3,
            "tpot_p50_s": result["median_tpot_ms"] / 1e3,
            "hit_rate": result["prefix_cache_reused_ratio"],
            "wall_s": result["wall_time_ms"] / 1e3,
        }
        return Spent(requests, cpu_s, rss, figures)
