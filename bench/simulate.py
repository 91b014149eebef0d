"""How fast and how large Poise's simulator is, beside the peers that are given; see README.md.

    python bench/simulate.py [--quick] [--repeat N] [--only WORDS] [--json FILE] [--against DIR]

Every measurement is a process of its own. It prints CPU seconds and asserts nothing about them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from peers.aisimulate import AISimulate
from peers.dynamo import Dynamo
from peers.load import TRACE, Load
from peers.ours import Poise
from peers.process import Failed, Peer, Spent, load_average, spend
from peers.vidur import Vidur

ROUTERS = ("round_robin", "least_requests", "least_tokens", "prefix_cache")
START = 100
"""Requests of the simulation whose whole cost is the first result's."""


class Case(NamedTuple):
    """A row of the table: a load under a router, in two lengths whose difference leaves the start-up out."""

    load: Load
    router: str
    small: int
    large: int

    @property
    def name(self) -> str:
        """As the table prints it and `--only` matches it."""
        return f"{self.load.name} {self.router}"


class Cost(NamedTuple):
    """Medians over the repeats of one simulator on one case.

    whole, marginal: requests per CPU second, of the long run with its start, and of the requests that it has more.
    rss: bytes per such request.  flat: requests per CPU second in the event loop, long run over short (None: not
    told).  told: what the simulator says of the long run.
    """

    requests: int
    whole: float
    marginal: float
    rss: float
    flat: float | None
    report: dict[str, Any]


def cases(quick: bool) -> Iterator[Case]:
    """The loads of the table; quick: short runs of the extremes."""
    small, large = (START, 20_000) if quick else (20_000, 100_000)
    for replicas in (1, 80) if quick else (1, 4, 16, 80):
        for rate in (2, 6):
            for router in ROUTERS[:2] if quick else ROUTERS:
                yield Case(Load("poisson", rate, replicas), router, small, large)
    yield Case(Load("shared", 6, 16), "prefix_cache", small, large)
    if TRACE.exists():
        with gzip.open(TRACE, "rb") as lines:
            rows = sum(1 for _ in lines)
        yield Case(Load("mooncake", 0, 8), "prefix_cache", min(1000, rows // 2), rows)
    else:
        print("no Mooncake trace under POISE_DATA: left out", file=sys.stderr)


class Bench:
    """Measurements by simulator, load, its router and requests; each made once a round, however many rows show it."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.spent: dict[tuple[str, Load, str, int], list[Spent]] = {}

    def sizes(self, peer: Peer, case: Case) -> tuple[int, int]:
        """The two lengths, a tenth of the long run being enough for a short one where the peer is slow."""
        return (case.small, case.large) if case.large <= peer.most else (peer.most // 10, peer.most)

    def round(self, chosen: list[Case]) -> None:
        """Measure everything once, a simulator right after another, so that noise meets all of them."""
        seen = set()
        for case in chosen:
            for peer in self.peers:
                router = peer.router(case.load, case.router)
                for requests in self.sizes(peer, case) if router else ():
                    key = peer.name, case.load, str(router), requests
                    if key in seen:
                        continue
                    seen.add(key)
                    show(f"{peer.name} {case.name} {requests} …")
                    try:
                        self.spent.setdefault(key, []).append(peer.measure(*key[1:]))
                    except Failed as error:
                        if peer is self.peers[0]:
                            raise
                        print(f"{error}\n{peer.name} is left out of {case.load.name}", file=sys.stderr)
        show("")

    def cost(self, peer: Peer, case: Case) -> Cost | None:
        """What the peer's runs of a case came to."""
        router = peer.router(case.load, case.router)
        if router is None:
            return None
        small, large = (self.spent[peer.name, case.load, router, size] for size in self.sizes(peer, case))
        if not (small and large):
            return None
        more = large[0].requests - small[0].requests
        seconds = median(run.cpu_s for run in large)
        loops = [median(run.report.get("simulated_s", 0.0) for run in runs) for runs in (small, large)]
        flat = None
        if all(loops) and case.load.kind != "mooncake" and small[0].requests > START:
            flat = (large[0].requests / loops[1]) / (small[0].requests / loops[0])
        return Cost(
            large[0].requests,
            large[0].requests / seconds,
            more / max(seconds - median(run.cpu_s for run in small), 1e-9),
            (median(run.rss for run in large) - median(run.rss for run in small)) / more,
            flat,
            large[0].report,
        )


def show(text: str) -> None:
    """What is under way, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def table(bench: Bench, chosen: list[Case]) -> list[dict[str, Any]]:
    """Print a line for each case, and return the figures."""
    ours, *others = bench.peers
    heads = ("whole", "marginal", "flat", "B/req", "steps", "holds")
    print(f"\n{'requests per CPU second':34}" + "".join(f"{head:>9}" for head in heads), end="")
    print("".join(f"{peer.name:>12}{'ratio':>9}{'B/req':>9}" for peer in others))
    rows = []
    for case in chosen:
        costs = {peer.name: bench.cost(peer, case) for peer in bench.peers}
        own = costs[ours.name]
        assert own is not None
        flat = "-" if own.flat is None else f"{own.flat:.2f}"
        steps, holds = (own.report[name] / own.requests for name in ("steps", "batches"))
        line = f"{case.name:34}{own.whole:9,.0f}{own.marginal:9,.0f}{flat:>9}{own.rss:9,.0f}{steps:9.1f}{holds:9.2f}"
        for cost in (costs[peer.name] for peer in others):
            if cost is None:
                line += f"{'-':>12}{'-':>9}{'-':>9}"
            else:
                rss = f"{cost.rss:,.0f}" if cost.rss > 0 else "-"
                line += f"{cost.marginal:12,.0f}{own.marginal / cost.marginal:8.1f}x{rss:>9}"
        print(line)
        rows.append({"load": case.name, **{name: cost and cost._asdict() for name, cost in costs.items()}})
    return rows


def start_up(repeat: int, router: str = "least_requests") -> dict[str, float]:
    """CPU seconds until something is there: the bare interpreter, `import poise`, and the first result."""
    load = Load("poisson", 6, 4)
    lines = {"python": "pass", "import poise": "import poise"}
    found = {
        name: median(spend([sys.executable, "-c", code])[0] for _ in range(repeat)) for name, code in lines.items()
    }
    found["first result"] = median(Poise().measure(load, router, START).cpu_s for _ in range(repeat))
    return found


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Speed and memory of the simulator, beside its peers.")
    parser.add_argument("--quick", action="store_true", help="short runs of the extreme loads")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="measure N times and take medians")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows whose name holds all of these words")
    parser.add_argument("--against", type=Path, metavar="DIR", help="measure the Poise of another checkout beside it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and every measurement there")
    return parser.parse_args()


def main() -> None:
    """Measure, print, and write."""
    wanted = options()
    chosen = [case for case in cases(wanted.quick) if all(word in case.name.split() for word in wanted.only.split())]
    if not chosen:
        sys.exit(f"bench: no load matches --only {wanted.only!r}; names are like {next(cases(wanted.quick)).name!r}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = [Poise("there", wanted.against.resolve())] if wanted.against else []
        found = (Dynamo.find(folder), AISimulate.find(folder), Vidur.find(folder))
        peers: list[Peer] = [Poise(), *others, *(peer for peer in found if peer)]
        bench = Bench(peers)
        start = start_up(max(wanted.repeat, 3))
        loads = [os.getloadavg()[0]]
        for _ in range(wanted.repeat):
            try:
                bench.round(chosen)
                loads.append(os.getloadavg()[0])
            except Failed as error:
                sys.exit(f"bench: {error}")
    where = f"python {platform.python_version()} on {platform.machine()}, {load_average(loads)}"
    core = next(spent.report["core"] for key, (spent, *_) in bench.spent.items() if key[0] == "poise")
    print(f"poise ({core} core), {where}, medians of {wanted.repeat}")
    print("CPU seconds to start: " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in start.items()))
    rows = table(bench, chosen)
    if wanted.json:
        runs = [
            {"simulator": key[0], "load": key[1].name, "router": key[2], **spent._asdict()}
            for key, several in bench.spent.items()
            for spent in several
        ]
        wanted.json.write_text(
            json.dumps({"start_cpu_s": start, "rows": rows, "runs": runs}, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
