"""Workloads: recorded traces read into columns, and generated ones.

arrivals   poisson, gamma, constant, closed, all_at_once (generate.py), diurnal, on_off (varying.py),
           burstgpt (burstgpt.py), phases (phases.py)
lengths    fixed, uniform, lognormal, exponential, geometric, zipf, empirical, pareto, llumnix (lengths.py),
           or recorded pairs
identity   shared_prefixes (shared.py), sessions (turns.py), recorded_sessions (replay.py), workflows (programs.py) of
           a Workflow (workflow.py): each takes a workload and returns a richer one
closed     in_lanes, by_stamps (lanes.py): recorded conversations, a number at a time, or by their own stamps
changes    classes, shift, cut (mix.py), with_tool (tools.py), adapters (adapters.py), media (media.py): each takes a
           workload and returns another one
clients    servegen (clients.py): many clients, each with its own rate, burstiness and lengths
recorded   read, read_lengths, read_profile, read_clients (readers/)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poise.workload.adapters import adapters
from poise.workload.burstgpt import burstgpt
from poise.workload.clients import Clients, servegen
from poise.workload.generate import Pairs, all_at_once, closed, constant, gamma, poisson
from poise.workload.lanes import by_stamps, in_lanes
from poise.workload.lengths import (
    Distribution,
    empirical,
    exponential,
    fixed,
    geometric,
    length,
    llumnix,
    lognormal,
    pareto,
    uniform,
    zipf,
)
from poise.workload.media import media
from poise.workload.mix import RequestClass, classes, cut, shift
from poise.workload.phases import phases
from poise.workload.profile import Profile
from poise.workload.programs import workflows
from poise.workload.replay import recorded_sessions
from poise.workload.shared import shared_prefixes
from poise.workload.table import Prefixes, Workload
from poise.workload.tools import with_tool
from poise.workload.turns import sessions
from poise.workload.varying import diurnal, on_off
from poise.workload.workflow import Task, Text, Workflow

if TYPE_CHECKING:
    from poise.workload.readers import read, read_clients, read_lengths, read_profile

__all__ = [
    "Clients",
    "Distribution",
    "Pairs",
    "Prefixes",
    "Profile",
    "RequestClass",
    "Task",
    "Text",
    "Workflow",
    "Workload",
    "adapters",
    "all_at_once",
    "burstgpt",
    "by_stamps",
    "classes",
    "closed",
    "constant",
    "cut",
    "diurnal",
    "empirical",
    "exponential",
    "fixed",
    "gamma",
    "geometric",
    "in_lanes",
    "length",
    "llumnix",
    "lognormal",
    "media",
    "on_off",
    "pareto",
    "phases",
    "poisson",
    "read",
    "read_clients",
    "read_lengths",
    "read_profile",
    "recorded_sessions",
    "servegen",
    "sessions",
    "shared_prefixes",
    "shift",
    "uniform",
    "with_tool",
    "workflows",
    "zipf",
]


def __getattr__(name: str) -> Any:
    """Load the readers when one of them is first used."""
    if name in ("read", "read_clients", "read_lengths", "read_profile"):
        from poise.workload import readers

        return getattr(readers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
