"""Schedulers of sail-sg/zero-bubble-pipeline-parallelism, from a checkout that POISE_SAIL or `--sail` names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from poise.pipeline import Schedule
from poise.pipeline.op import read_op

CHILD = Path(__file__).with_name("sail_run.py")
SCHEDULER = "megatron/core/pipeline_parallel/zerobubble/scheduler"


class Sail:
    """A checkout; every schedule is made in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    @classmethod
    def find(cls, given: Path | None) -> Sail | None:
        """The checkout that was given; an error where it holds no schedulers."""
        name = given or os.environ.get("POISE_SAIL")
        if not name:
            return None
        if not (Path(name) / SCHEDULER / "zb.py").exists():
            sys.exit(f"bench: {name} has no {SCHEDULER}/zb.py; give a checkout of zero-bubble-pipeline-parallelism")
        return cls(Path(name))

    def make(
        self, name: str, ranks: int, count: int, times: Sequence[Sequence[float]], comm: float
    ) -> tuple[Schedule, float]:
        """Its schedule, in our form, and the seconds that it took."""
        columns = [",".join(map(str, each)) for each in times]
        command = [sys.executable, str(CHILD), str(self.checkout), name, str(ranks), str(count), *columns, str(comm)]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        return Schedule.of([[read_op(word) for word in row] for row in answer["rows"]], name), answer["made_s"]
