"""Conversations of agents on Ray actors: by one central loop, in batches, or row by row from peer to peer.

    python bench/matrix.py --rows 3000 --in-flight 500 --agents 3

What `poise/workload/matrix.py` simulates, run: an agent's call is a sleep, so all that is measured is orchestration.
The central loop is one actor with a coroutine for each row; from peer to peer the row's state travels in the message,
and a sink admits the next row when one ends, or with batches when all have ended. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from poise.workload.matrix import WAYS, conversations

Calls = list[float]


class Agent:
    """One agent, without state of any row."""

    def meet(self, peers: list[Any], sink: Any) -> None:
        """Know the others, and whom to tell of the end of a row."""
        self.peers = peers
        self.sink = sink

    async def call(self, seconds: float) -> None:
        """Serve one call."""
        await asyncio.sleep(seconds)

    async def take(self, row: int, at: int, calls: Calls) -> None:
        """Serve a row's next call, and pass the row on."""
        await asyncio.sleep(calls[at])
        if at + 1 == len(calls):
            self.sink.ended.remote(row)
        else:
            self.peers[(row + at + 1) % len(self.peers)].take.remote(row, at + 1, calls)


class Sink:
    """Admits rows and hears of their ends."""

    def __init__(self, agents: list[Any]) -> None:
        self.agents = agents
        self.heard: list[int] = []

    async def run(self, rows: list[Calls], in_flight: int, batch: bool) -> list[int]:
        """Run all rows; the numbers of those that ended, in order."""
        self.rows, self.in_flight, self.batch = rows, in_flight, batch
        self.heard, self.next, self.open = [], 0, 0
        self.over = asyncio.Event()
        self._admit()
        await self.over.wait()
        return self.heard

    async def ended(self, row: int) -> None:
        """A row has ended."""
        self.heard.append(row)
        self.open -= 1
        if len(self.heard) == len(self.rows):
            self.over.set()
        elif not self.batch or not self.open:
            self._admit()

    def _admit(self) -> None:
        while self.open < self.in_flight and self.next < len(self.rows):
            self.agents[self.next % len(self.agents)].take.remote(self.next, 0, self.rows[self.next])
            self.next += 1
            self.open += 1


class Loop:
    """The central one: it holds every row."""

    def __init__(self, agents: list[Any]) -> None:
        self.agents = agents

    async def run(self, rows: list[Calls], in_flight: int) -> list[int]:
        """Run all rows; the numbers of those that ended, in order."""
        room, heard = asyncio.Semaphore(in_flight), []

        async def one(row: int) -> None:
            async with room:
                for at, seconds in enumerate(rows[row]):
                    await self.agents[(row + at) % len(self.agents)].call.remote(seconds)
            heard.append(row)

        await asyncio.gather(*map(one, range(len(rows))))
        return heard


def measure(rows: list[Calls], in_flight: int, agents: int) -> dict[str, float]:
    """Return calls per second of each way, on a cluster that `ray.init` has been called for."""
    import ray

    actors = [ray.remote(Agent).options(num_cpus=0, max_concurrency=10_000).remote() for _ in range(agents)]
    sink = ray.remote(Sink).options(num_cpus=0, max_concurrency=10_000).remote(actors)
    loop = ray.remote(Loop).options(num_cpus=0).remote(actors)
    ray.get([each.meet.remote(actors, sink) for each in actors])
    rates = {}
    for way in WAYS:
        begin = time.perf_counter()
        more = () if way == "central" else (way == "batch",)
        ended = ray.get((loop if way == "central" else sink).run.remote(rows, in_flight, *more))
        assert sorted(ended) == list(range(len(rows))), "every row ends once"
        rates[way] = sum(map(len, rows)) / (time.perf_counter() - begin)
    return rates


def main() -> None:
    """Print the calls per second of each way."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rows", type=int, default=3000)
    given.add_argument("--in-flight", type=int, default=500)
    given.add_argument("--agents", type=int, default=3)
    given.add_argument("--call-s", type=float, default=0.05)
    options = given.parse_args()
    import ray

    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    rows = conversations(options.rows, turns={"geometric": 6}, call_s={"lognormal": {"mean": options.call_s, "cv": 1}})
    for way, rate in measure(rows, options.in_flight, options.agents).items():
        print(f"{way:8} {rate:8.0f} calls/s")


if __name__ == "__main__":
    main()
