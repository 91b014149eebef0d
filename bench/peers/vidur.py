"""Vidur: its Sarathi scheduler and linear predictors, with metrics per request, which Poise keeps too; no plots.

Environment: `VIDUR_DIR`, a checkout that holds the attention profile of Meta-Llama-3-8B on A100, and `VIDUR_PY`, the
python of a virtual environment with what it needs. It has no prefix cache, so it is asked for the loads without shared
prefixes only, and for fewer requests, because it is slow; its cost per request does not depend on their number.
"""

from __future__ import annotations

import os
from pathlib import Path

from peers.load import Load
from peers.process import Failed, Spent, spend, written

LEFT_OUT = ("operation", "token_completion", "batch", "utilization")
"""Its other metrics: a quarter of its time, and Poise's runs of this bench keep no such thing."""


class Vidur:
    """python: its interpreter.  checkout: its repository.  folder: where arrivals are written."""

    name = "vidur"
    most = 4000

    def __init__(self, python: str, checkout: Path, folder: Path) -> None:
        self.python = python
        self.checkout = checkout
        self.folder = folder
        self._trained = False

    @staticmethod
    def find(folder: Path) -> Vidur | None:
        """The one that the environment names."""
        python, checkout = os.environ.get("VIDUR_PY"), os.environ.get("VIDUR_DIR")
        return Vidur(python, Path(checkout), folder) if python and checkout else None

    def router(self, load: Load, router: str) -> str | None:
        """Round robin, or the fewest outstanding requests."""
        return None if load.kind != "poisson" else "round_robin" if router == "round_robin" else "lor"

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Simulate the load once, after a short run that trains and caches its predictors."""
        if not self._trained:
            self._trained = True
            self.measure(load, router, 10)
        trace = written(load, requests, "vidur", self.folder)
        cpu_s, rss, output = spend(
            [
                *(self.python, "-m", "vidur.main", "--execution_time_predictor_config_type", "linear_regression"),
                *("--replica_config_device", "a100", "--replica_config_network_device", "a100_dgx"),
                *("--replica_config_model_name", "meta-llama/Meta-Llama-3-8B"),
                *("--replica_config_tensor_parallel_size", "1", "--replica_config_num_pipeline_stages", "1"),
                *("--cluster_config_num_replicas", str(load.replicas), "--global_scheduler_config_type", router),
                *("--request_generator_config_type", "trace_replay"),
                *("--trace_request_generator_config_trace_file", str(trace)),
                *("--replica_scheduler_config_type", "sarathi", "--sarathi_scheduler_config_chunk_size", "512"),
                *("--sarathi_scheduler_config_batch_size_cap", "128"),
                *("--metrics_config_output_dir", str(self.folder / "vidur"), "--no-metrics_config_store_plots"),
                *(f"--no-metrics_config_store_{what}_metrics" for what in LEFT_OUT),
                *("--no-metrics_config_enable_chrome_trace", "--no-metrics_config_write_json_trace"),
            ],
            self.checkout,
            WANDB_MODE="disabled",
            MPLBACKEND="Agg",
        )
        if "Simulation ended at" not in output:  # its exit status is 0 even when it failed
            raise Failed(f"vidur did not end {load.name}: {output[-1000:]}")
        return Spent(requests, cpu_s, rss, {})
