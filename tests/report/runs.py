"""Runs made by hand: each request is a row of seconds and counts, each figure can be worked out on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poise.core.model import Model
from poise.core.records.records import FINISHED, NOT_YET, Records, ReplicaStats, Run
from poise.core.spec import Cluster, Device, Pool
from poise.core.units import ps

MODEL = Model("tiny", 2, 64, 4, 4, 16, 1000, 128, 4096)


@dataclass(frozen=True)
class Row:
    """One request, in seconds; None is what never happened."""

    arrived: float | None
    dispatched: float | None = None
    first: float | None = None
    ended: float | None = None
    status: int = FINISHED
    prompt: int = 0
    output: int = 0
    cached: int = 0
    replica: int = 0


def instant(seconds: float | None) -> int:
    return NOT_YET if seconds is None else ps(seconds)


def a_run(rows: list[Row], *, until: float = 10.0, replicas: list[ReplicaStats] | None = None, **more: Any) -> Run:
    """A run of these requests that ends at `until`, on one replica unless told otherwise."""
    records = Records(len(rows))
    for at, row in enumerate(rows):
        records.arrived_at[at], records.dispatched_at[at] = instant(row.arrived), instant(row.dispatched)
        records.first_token_at[at], records.ended_at[at] = instant(row.first), instant(row.ended)
        records.status[at], records.replica[at], records.decode_replica[at] = row.status, row.replica, row.replica
        records.prompt_tokens[at], records.output_tokens[at] = row.prompt, row.output
        records.cached_tokens[at] = row.cached
    more.setdefault("offered", len(rows))
    return Run(records, [ReplicaStats()] if replicas is None else replicas, ended_at=ps(until), **more)


def a_cluster(replicas: int = 1, *, price: float = 0.0, tdp_w: float = 0.0, **pool: Any) -> Cluster:
    """One pool of `replicas` on an invented device."""
    device = Device("toy", "none", 1e12, 10**9, 1e11, tdp_w=tdp_w, price_per_hour=price, price_basis="list 2025-01")
    return Cluster((Pool(MODEL, device, replicas=replicas, **pool),))
