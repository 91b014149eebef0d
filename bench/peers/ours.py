"""Poise itself, measured like everybody else: a whole process from its start to the figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from peers.load import ROOT, Load
from peers.process import CHILD, Failed, Spent, spend


class Poise:
    """The package of a checkout, this one by default, run by the interpreter that runs this."""

    most = 1 << 60

    def __init__(self, name: str = "poise", root: Path = ROOT) -> None:
        self.name = name
        self.root = root

    def router(self, load: Load, router: str) -> str:
        """Its own."""
        return router

    def measure(self, load: Load, router: str, requests: int) -> Spent:
        """Run `poise_run.py` once."""
        question = json.dumps({"load": load, "requests": requests, "router": router})
        child = self.root / CHILD.relative_to(ROOT)  # its own, for modules change their names
        cpu_s, rss, output = spend([sys.executable, str(child), question], PYTHONPATH=str(self.root))
        figures = json.loads(output)
        if Path(figures.get("package", self.root / "poise")) != self.root / "poise":  # older scripts do not say it
            raise Failed(f"{self.root} has no poise: {figures['package']} was run")
        if figures["finished"] != requests:
            raise Failed(f"poise finished {figures['finished']} of {requests} requests of {load.name}")
        return Spent(requests, cpu_s, rss, figures)
