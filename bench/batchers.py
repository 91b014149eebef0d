"""Print how fast each batcher is simulated: requests per CPU second at four loads, the best of `--repeat` runs.

One replica of Llama-3.1-8B on an H100; prompts of 1,000 tokens in the mean (log-normal, cv 1, at most 8,000), outputs
of 200 (cv 0.6, at most 1,000), Poisson arrivals at two fifths and at five sixths of the 23 a second that `chunked`
carries; the same prompts with one output token, as on a prefill replica, at five sixths of the 42 that it computes; and
60 a second, more than twice of what it carries, so that in the end more than half of all requests wait.
Batchers of lanes have half of the device for prompts and half for decodes at the start, and the queue that they name.

    python bench/batchers.py [--repeat N] [batcher …]
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import poise as ps
from poise.core.spec import Lane
from poise.policies.find import build, find, names

REQUESTS = 4000
LANES = (Lane("prompts", decode=False, share=0.5), Lane("decodes", prefill=False, share=0.5))
QUEUES = {"nexus": "shortest_prompt"}


class Load(NamedTuple):
    """Requests a second, and their output tokens in the mean."""

    name: str
    rate: float
    output_tokens: int

    def workload(self, requests: int) -> ps.workload.Workload:
        """The load's first `requests` requests."""
        return ps.workload.poisson(
            self.rate,
            requests=requests,
            prompt_tokens=ps.workload.lognormal(1000, 1.0, 8000),
            output_tokens=ps.workload.lognormal(self.output_tokens, 0.6, 1000) if self.output_tokens > 1 else 1,
            seed=1,
        )


LOADS = (Load("10/s", 10, 200), Load("20/s", 20, 200), Load("prompts, 35/s", 35, 1), Load("60/s", 60, 200))


def simulated(batcher: str, load: Load, requests: int = REQUESTS) -> ps.Result:
    """One run of the load under the batcher."""
    lanes = LANES if getattr(find("batcher", batcher), "lanes", False) else (Lane("main"),)
    engine = ps.Engine(prefix_caching=False, lanes=lanes)
    cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
    queue = QUEUES.get(batcher)
    policies = ps.Policies(batcher=build("batcher", batcher), queue=build("queue", queue) if queue else None)
    return ps.simulate(cluster, load.workload(requests), policies)


def main() -> None:
    """A line for each batcher."""
    parser = argparse.ArgumentParser(description="Speed of the simulator under each batcher.")
    parser.add_argument("batchers", nargs="*", default=names("batcher"), help="names of batchers; all without any")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="take the best of N runs")
    options = parser.parse_args()
    print("requests per CPU second      " + "".join(f"{load.name:>15}" for load in LOADS))
    for batcher in options.batchers:
        seconds = [min(simulated(batcher, load).run.cpu_s for _ in range(options.repeat)) for load in LOADS]
        print(f"{batcher:29}" + "".join(f"{REQUESTS / each:15,.0f}" for each in seconds), flush=True)


if __name__ == "__main__":
    main()
