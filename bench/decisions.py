"""Print what a decision costs: requests per CPU second through `Control` alone, for each router at 80 replicas.

Every request arrives, is routed, has its first token and ends, some 20 a replica in flight, with a report every second:
all that the control side does in a simulation, and in a gateway, without the engines. Prompts without identity, and
those of Mooncake's conversation trace (POISE_DATA, default ../shared/data), whose prefixes are looked up and noted.

    python bench/decisions.py [router …] [--repeat N] [--against DIR]

With `--against` the same script of another checkout is measured beside it, router by router, each in a process of its
own; the figures are medians of N rounds. It prints CPU rates and asserts nothing about them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from peers.process import load_average

import poise as ps
from poise.core.action import Dispatch
from poise.core.control.control import Control
from poise.core.event import Arrived, Event, Finished, FirstToken, Reported
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.units import SECOND
from poise.core.view import REPORTED
from poise.policies import Policies
from poise.policies.find import build, names
from poise.sim.arrivals import Arrivals

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
TRACE = DATA / "mooncake" / "conversation_trace.jsonl.gz"
ROOT = Path(__file__).resolve().parents[1]
REPLICAS, PREFILLING, IN_FLIGHT, REQUESTS, RATE = 80, 60, 1600, 30_000, 480


def plain() -> Iterator[RequestView]:
    """Requests of 1,000 tokens without identity."""
    return (RequestView(row, row * SECOND // RATE, 1000) for row in range(REQUESTS))


def mooncake() -> Iterator[RequestView]:
    """The trace's requests, superposed to as many."""
    trace = ps.workload.read(TRACE)
    workload = trace.scaled(REQUESTS / len(trace), seed=0)
    arrivals = Arrivals(workload)
    return (arrivals.view(row, row * SECOND // RATE) for row in range(min(REQUESTS, len(workload))))


def rate(router: str, requests: list[RequestView]) -> float:
    """Requests per CPU second, all of whose life the control side sees."""
    spec = ReplicaSpec(blocks=30_000, cache_tokens=480_000, prefill_rate=20_000.0, kv_token_bytes=131_072)
    control = Control(Policies(router=build("router", router)), [spec] * REPLICAS)
    read = [name for name in REPORTED if name in (*control.router.needs, *getattr(control.mover, "needs", ()))]
    column = [(number * 7) % 13 for number in range(REPLICAS)]
    started: deque[tuple[int, int]] = deque()  # sent, without a first token yet
    flying: deque[int] = deque()

    def tell(event: Event) -> None:
        for action in control.handle(event):
            if type(action) is Dispatch:
                started.append((action.request, action.replica))
                flying.append(action.request)

    began = time.process_time()
    for request in requests:
        now = request.arrived_at
        if request.id % RATE == 0:
            tell(Reported(now, now, dict.fromkeys(read, column)))
        tell(Arrived(now, request))
        if len(started) > PREFILLING:
            tell(FirstToken(now, *started.popleft()))
        if len(flying) > IN_FLIGHT:
            tell(Finished(now, flying.popleft(), 200))
    return len(requests) / (time.process_time() - began)


def here(routers: list[str]) -> None:
    """A line for each router."""
    loads = {"no identity": list(plain()), "Mooncake": list(mooncake()) if TRACE.exists() else []}
    print("requests per CPU second      " + "".join(f"{name:>14}" for name in loads))
    for router in routers:
        rates = [f"{rate(router, requests):14,.0f}" if requests else f"{'-':>14}" for requests in loads.values()]
        print(f"{router:29}" + "".join(rates), flush=True)


def beside(routers: list[str], other: Path, repeat: int) -> None:
    """Both checkouts in turn, so that noise meets both; a line for each router with their ratio."""
    loads = [os.getloadavg()[0]]
    heads = "".join(f"{load:>13}{'there':>10}{'ratio':>7}" for load in ("no identity", "Mooncake"))
    print(f"{'requests per CPU second':26}{heads}")
    for router in routers:
        rounds = [[measured(root, router) for root in (ROOT, other)] for _ in range(repeat)]
        line = f"{router:26}"
        for load in range(2):
            ours, theirs = ([each[side][load] for each in rounds if each[side]] for side in range(2))
            if not all((ours, theirs)) or None in (*ours, *theirs):
                line += f"{'-':>13}{'-':>10}{'-':>7}"
                continue
            line += f"{median(ours):13,.0f}{median(theirs):10,.0f}{median(ours) / median(theirs):7.2f}"
        print(line, flush=True)
        loads.append(os.getloadavg()[0])
    print(f"{load_average(loads)}, medians of {repeat}")


def measured(root: Path, router: str) -> list[float | None]:
    """The rates that the script of a checkout prints for a router; none where it has no such router."""
    command = [sys.executable, str(root / "bench" / "decisions.py"), router]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(root)}, cwd=root
    )
    if done.returncode:
        return []
    return [None if each == "-" else float(each.replace(",", "")) for each in done.stdout.split("\n")[1].split()[1:]]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="What a decision costs, by router.")
    parser.add_argument("routers", nargs="*", metavar="router", help="names, as in `poise policies` (default: all)")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="rounds with --against, for medians")
    parser.add_argument("--against", type=Path, metavar="DIR", help="measure the script of another checkout beside it")
    given = parser.parse_args()
    routers = given.routers or names("router")
    if given.against is None:
        here(routers)
    else:
        beside(routers, given.against.resolve(), given.repeat)


if __name__ == "__main__":
    main()
