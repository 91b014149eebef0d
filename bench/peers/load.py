"""The loads that every simulator is given. Measured processes import this file, so it imports little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("POISE_DATA", ROOT.parent / "shared/data"))
TRACE = DATA / "mooncake" / "conversation_trace.jsonl.gz"

PROMPT, OUTPUT = 1000, 200
SHARED, GROUPS = 768, 64
BLOCK = 256
"""Prompt tokens that one hash id covers in the files written for peers; it divides `SHARED`."""


class Load(NamedTuple):
    """What is simulated: `rate` requests per second and replica, on `replicas` replicas.

    kind: `poisson` (1000 prompt and 200 output tokens each), `shared` (the same, the first 768 tokens being one of 64
    prefixes, Zipf 1) or `mooncake` (the recorded trace at its own rate; `rate` is 0).
    """

    kind: str
    rate: float
    replicas: int

    @property
    def name(self) -> str:
        """As the table prints it."""
        return f"{self.kind} {self.rate:g}/s x{self.replicas}" if self.rate else f"{self.kind} x{self.replicas}"
