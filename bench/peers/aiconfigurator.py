"""AIConfigurator (Apache-2.0): `cli recommend`, the fewest GPUs for a rate of requests of one size under an SLO.

Environment: `AIC_BIN`, its executable. It composes measured operator times in the steady state, aggregated and
disaggregated, and simulates no requests.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any

from peers.process import Failed, spend

GPUS = re.compile(r"^\s*(agg|disagg) GPUs needed: (\d+)", re.MULTILINE)


class AIConfigurator:
    """binary: the executable."""

    name = "AIConfigurator"

    def __init__(self, binary: str) -> None:
        self.binary = binary

    @staticmethod
    def find() -> AIConfigurator | None:
        """The one that the environment names."""
        binary = os.environ.get("AIC_BIN")
        return AIConfigurator(binary) if binary else None

    def ask(self, question: Any) -> dict[str, Any]:
        """CPU and wall seconds, and the GPUs of its best answer."""
        since = time.perf_counter()
        cpu_s, rss, output = spend(
            [
                *(self.binary, "cli", "recommend", "--model-path", question.aic_model, "--system", question.aic_system),
                *("--backend", "vllm", "--isl", str(question.prompt), "--osl", str(question.output), "--no-color"),
                *("--ttft", str(1000 * question.ttft_s), "--tpot", str(1000 * question.tpot_s)),
                *("--target-request-rate", str(question.rate)),
            ]
        )
        found = {kind: int(count) for kind, count in GPUS.findall(output)}
        if not found:
            raise Failed(f"AIConfigurator did not say how many GPUs: {output[-500:]}")
        best = min(found, key=lambda kind: found[kind])
        return {
            "cpu_s": cpu_s, "wall_s": time.perf_counter() - since, "rss": rss, "gpus": found[best],
            "answer": f"{found[best]} GPUs, {best}", "first_s": None, "trials": 0,
        }  # fmt: skip
