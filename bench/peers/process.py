"""One process per measurement, and what it cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from peers.load import Load

CHILD = Path(__file__).with_name("poise_run.py")


def load_average(loads: Sequence[float]) -> str:
    """The machine's load averages around a measurement, marked where other jobs took part; ours alone make 1."""
    busy = ": BUSY, read ratios and no rates" if max(loads) > 1.5 else ""
    return f"load average {min(loads):.1f} to {max(loads):.1f}{busy}"


class Spent(NamedTuple):
    """What one process cost.

    cpu_s: user and system seconds of the whole process, its start included.  rss: bytes at its peak.
    told: what the simulator says itself: `ttft_p50_s`, `tpot_p50_s` and, of Poise, `steps` and `simulated_s`.
    """

    requests: int
    cpu_s: float
    rss: int
    report: dict[str, Any]


class Peer(Protocol):
    """A simulator that can be measured.

    name: as the table prints it.  most: the most requests that it is asked for, because it is slow.
    """

    name: str
    most: int

    def router(self, load: Load, router: str) -> str | None:
        """Its counterpart of a router of Poise on this load; None where it has none."""
        ...

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Run the load's first `requests` requests in a process of its own."""
        ...


class Failed(Exception):
    """A measured process failed, or did not do all its requests."""


def spend(command: Sequence[str], cwd: Path | None = None, **environment: str) -> tuple[float, int, str]:
    """Run a command to its end: `(CPU seconds, peak RSS in bytes, standard output)`.

    The kernel counts the parent's memory at the fork in the child's peak, so the parent must stay small.
    """
    with subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with {process.returncode}: {output[-1000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_utime + used.ru_stime, used.ru_maxrss * unit, output


def written(load: Load, requests: int, form: str, folder: Path) -> Path:
    """A file with the very requests that Poise simulates, as `mooncake` JSON Lines or `vidur` CSV; written once."""
    path = folder / f"{load.kind}-{load.rate:g}-{load.replicas}-{requests}.{form}"
    if not path.exists():
        question = {"load": load, "requests": requests, "write": [form, str(path)]}
        spend([sys.executable, str(CHILD), json.dumps(question)])
    return path
