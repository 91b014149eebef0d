"""Poise itself, measured like everybody else: a whole process from its start to the figures."""

from __future__ import annotations

import json
import sys

from peers.load import Load
from peers.process import CHILD, Failed, Spent, spend


class Poise:
    """The package beside this folder, run by the interpreter that runs this."""

    name = "poise"
    most = 1 << 60

    def router(self, load: Load, router: str) -> str:
        """Its own."""
        return router

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Run `poise_run.py` once."""
        told = json.dumps({"load": load, "requests": requests, "router": router})
        cpu_s, rss, output = spend([sys.executable, str(CHILD), told])
        figures = json.loads(output)
        if figures["finished"] != requests:
            raise Failed(f"poise finished {figures['finished']} of {requests} requests of {load.name}")
        return Spent(requests, cpu_s, rss, figures)
