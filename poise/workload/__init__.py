"""Workloads: recorded traces read into columns, and generated ones.

arrivals   poisson, gamma, constant, closed, all_at_once        (generate.py)
lengths    fixed, uniform, lognormal, exponential, geometric, zipf, empirical, or recorded pairs (lengths.py)
identity   shared_prefixes (shared.py), sessions (turns.py): each takes a workload and returns a richer one
recorded   read, read_lengths (readers/)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poise.workload.generate import Pairs, all_at_once, closed, constant, gamma, poisson
from poise.workload.lengths import (
    Distribution,
    empirical,
    exponential,
    fixed,
    geometric,
    length,
    lognormal,
    uniform,
    zipf,
)
from poise.workload.shared import shared_prefixes
from poise.workload.table import Prefixes, Workload
from poise.workload.turns import sessions

if TYPE_CHECKING:
    from poise.workload.readers import read, read_lengths

__all__ = [
    "Distribution",
    "Pairs",
    "Prefixes",
    "Workload",
    "all_at_once",
    "closed",
    "constant",
    "empirical",
    "exponential",
    "fixed",
    "gamma",
    "geometric",
    "length",
    "lognormal",
    "poisson",
    "read",
    "read_lengths",
    "sessions",
    "shared_prefixes",
    "uniform",
    "zipf",
]


def __getattr__(name: str) -> Any:
    """Load the readers when one of them is first asked for."""
    if name in ("read", "read_lengths"):
        from poise.workload import readers

        return getattr(readers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
