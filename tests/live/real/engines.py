"""Two vLLM processes: started side by side, killed and started again."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cached import Unavailable
from tests.live.real.process import NAME, Process, free_port

BLOCK: Final = 32
"""Tokens of a KV block: on CPUs a multiple of 32."""

BLOCKS: Final = 160
"""KV blocks of an engine: few, so that tiny prompts fill them."""

LIMIT_S: Final = 1500.0
"""Longest time for all tests with the installation: those that would begin later are skipped. Without it, four minutes
are usual on two cores and six on busy ones.
"""

SWITCHES: Final = ("--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details")

SILENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


@dataclass(kw_only=True)
class Vllm(Process):
    """One engine. kv_endpoint: where it connects to with its KV events, under `topic`."""

    programs: Path
    model: Path
    kv_endpoint: str

    @property
    def topic(self) -> str:
        return f"kv@{self.port}"

    def command(self) -> list[str | Path]:
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": self.kv_endpoint, "topic": self.topic}
        flags = {
            "--served-model-name": NAME, "--host": "127.0.0.1", "--port": self.port, "--dtype": "bfloat16",
            "--max-model-len": 4096, "--block-size": BLOCK, "--max-num-seqs": 16, "--num-gpu-blocks-override": BLOCKS,
            "--kv-events-config": json.dumps(events),
        }  # fmt: skip
        given = [str(each) for pair in flags.items() for each in pair]
        return [self.programs / "vllm", "serve", self.model, *given, *SWITCHES]

    def environment(self) -> dict[str, str]:
        """Ours, but that compiled bytecode is kept: pip was told to compile none, and most of it is never used."""
        ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**ours, **SILENT}


class Pair:
    """Two engines of one model, whose KV events go to one endpoint.

    until: when they serve no more tests, of the monotonic clock.
    """

    def __init__(self, programs: Path, model: Path, logs: Path, until: float) -> None:
        self.model = model
        self.kv_endpoint = f"tcp://127.0.0.1:{free_port()}"
        self.engines = [
            Vllm(programs=programs, model=model, kv_endpoint=self.kv_endpoint, log=logs / f"vllm{number}.log")
            for number in range(2)
        ]
        self.until = until

    def start(self) -> None:
        """Start those that do not run, side by side; Unavailable where they do not, or have served long enough."""
        if time.monotonic() > self.until:
            raise Unavailable(f"what was before this took more than {LIMIT_S:.0f} s")
        starting = [engine for engine in self.engines if not engine.runs()]
        for engine in starting:
            engine.start()
        for engine in starting:
            engine.wait(self.until)

    def clear(self) -> None:
        """Forget all prefixes."""
        for engine in self.engines:
            assert engine.ask("POST", "/reset_prefix_cache")[0] == 200

    def hits(self) -> tuple[float, float]:
        """Prompt tokens that were found in the caches, and that were looked up."""
        counters = [engine.reading().counters for engine in self.engines]
        return sum(each["prefix_hits"] for each in counters), sum(each["prefix_queries"] for each in counters)

    def stop(self) -> None:
        for engine in self.engines:
            engine.kill()
