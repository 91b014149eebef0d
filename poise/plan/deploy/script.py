"""Shell scripts that start the engines of one host."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from poise.catalogue.engines import engine_defaults
from poise.core.spec import Pool
from poise.plan.deploy.cap import cap_command
from poise.plan.deploy.place import Place, places
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet

VISIBLE = {"NVIDIA": "CUDA_VISIBLE_DEVICES", "AMD": "HIP_VISIBLE_DEVICES"}
"""The variable that says which devices of a host are an engine's, by maker."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of one process of a replica: its own address, the head's, its rank among `hosts`, its HTTP port.

    index: the shell expression of the rank where one text serves all ranks but the first; empty for the number.
    """

    host: str
    head: str
    hosts: int
    rank: int
    port: int
    index: str = ""

    def ranks(self, each: int) -> str:
        """The number of ranks before this host's, `each` on every one; a shell expression where the rank is unknown."""
        if not self.index:
            return str(each * self.rank)
        return self.index if each == 1 else f"$$(({each} * LWS_WORKER_INDEX))"


Starts = Callable[[Pool, Setting, Spot], tuple[Mapping[str, str], list[str]]]
"""The variables and the words of the command that starts one process of a replica."""


def script(fleet: Fleet, setting: Setting, starts: Starts, comments: Iterable[str]) -> str:
    """A script that starts the processes of the host that is named or that it runs on."""
    by_host: dict[str, list[str]] = {}
    for place in places(fleet, setting):
        pool = fleet.pools[place.pool]
        for rank, host in enumerate(place.hosts):
            if pool.slowed:
                by_host.setdefault(host, []).append(f"  {shlex.join(cap_command(pool, place.devices))}")
            spot = Spot(host, place.head, len(place.hosts), rank, place.port)
            by_host.setdefault(host, []).append(_process(pool, setting, spot, place, starts))
    named = next(iter(by_host)) if len(by_host) == 1 else "$(hostname -s)"
    lines = ["#!/usr/bin/env bash", *(f"# {line}" for line in comments)]
    lines += ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null' INT TERM", "", f'case "${{1:-{named}}}" in']
    for host, processes in by_host.items():
        lines += [f"{shlex.quote(host)})", *processes, "  ;;"]
    known = " ".join(by_host)
    lines += ["*)", f"  echo {shlex.quote(f'give one of the plan`s hosts: {known}')} >&2", "  exit 2", "  ;;", "esac"]
    return "\n".join([*lines, "wait", ""])


def plan_of(fleet: Fleet, engine: str) -> list[str]:
    """Which plan a script starts, and whether it was found for another engine than `engine`."""
    found = engine_defaults(fleet.pools[0].engine.name).name
    title = f"{engine} for {one_line(fleet.written)}, router {fleet.router}"
    if any(pool.slowed for pool in fleet.pools):
        title += "; run as root, for power caps"
    return [title] if found == engine else [title, f"The plan was found for {found}; {engine} was not simulated"]


def one_line(text: str) -> str:
    """A text for a comment."""
    return " ".join(text.split())


def _process(pool: Pool, setting: Setting, spot: Spot, place: Place, starts: Starts) -> str:
    """One command in the background, a flag a line."""
    variables, words = starts(pool, setting, spot)
    seen = {VISIBLE[pool.device.vendor]: ",".join(map(str, place.devices)), **variables}
    rows = [f"{name}={shlex.quote(value)}" for name, value in seen.items()]
    for at, word in enumerate(words):
        if at == 0 or word.startswith("--"):
            rows.append(shlex.quote(word))
        else:
            rows[-1] += f" {shlex.quote(word)}"
    title = place.name + (f", host {spot.rank + 1} of {spot.hosts}" if spot.hosts > 1 else "")
    return f"  # {title}\n  " + " \\\n    ".join(rows) + " &"
