"""BatchLLM: a queue that is there at once, planned by its shared prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.policies.batch.batch_llm import BatchLlm
from poise.policies.batch.chunked import Chunked

REQUESTS, EACH, OWN, OUTPUT = 2000, 8, 200, 100
PREFIXES = (250, 500, 1000, 2000, 4000)
BLOCKS = {"all of the KV cache": 0, "60,000 tokens": 3750}
PLANNED, ORDER = "BatchLLM", "vLLM"
POLICIES: Mapping[str, Chunked] = {PLANNED: BatchLlm(), ORDER: Chunked()}


class Metrics(NamedTuple):
    """Requests per second until the last has ended, and computed prompt tokens over those that one copy takes."""

    rate: float
    computed: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica of so many KV blocks (0: what memory leaves)."""

    bench: Bench
    blocks: int

    def run(self, batcher: Chunked, prefix: int, seed: int) -> Metrics:
        """All requests at once, with prefixes of so many tokens."""
        requests = self.bench.requests(REQUESTS)
        groups = requests // EACH
        some = ps.workload.all_at_once(requests, prompt_tokens=OWN, output_tokens=OUTPUT, seed=seed)
        workload = ps.workload.shared_prefixes(some, groups=groups, prefix_tokens=prefix, zipf=0.0, seed=seed)
        assert workload.prefixes is not None
        once = requests * OWN + len(set(workload.prefixes.ids.tolist())) * prefix
        cluster = ps.Cluster.of("A100", count=1).replicas(
            1, model="llama-3.1-8b", engine=ps.Engine(kv_blocks=self.blocks)
        )
        result = self.bench.simulate(cluster, workload, ps.Policies(batcher=batcher))
        computed = sum(each.prompt_tokens for each in result.run.replicas)
        return Metrics(requests / (max(result.run.records.ended_at) / 1e12), computed / once)


Found = Mapping[str, Mapping[str, Mapping[int, list[Metrics]]]]
"""By cache, system and prefix."""


def measure(bench: Bench) -> Findings:
    """Prefixes × caches."""
    seeds = range(bench.seeds())
    found = {
        cache: {
            name: {prefix: [Experiment(bench, blocks).run(each, prefix, seed) for seed in seeds] for prefix in PREFIXES}
            for name, each in POLICIES.items()
        }
        for cache, blocks in BLOCKS.items()
    }
    criteria = [_ahead(found), _most(found), _once(found), _grows(found), _pressure(found)]
    return Findings(criteria, [_curve(found, cache) for cache in BLOCKS])


def _ratio(found: Found, cache: str, prefix: int) -> Ratio:
    return ratio(*([each.rate for each in found[cache][name][prefix]] for name in (ORDER, PLANNED)))


def _told(found: Found, cache: str) -> str:
    return "; ".join(f"{prefix}: {times(_ratio(found, cache, prefix))}" for prefix in PREFIXES)


LARGE, SMALL = BLOCKS


def _ahead(found: Found) -> Answer:
    return Answer(
        "ahead",
        f"times, by tokens of a prefix: {_told(found, SMALL)}",
        [_ratio(found, SMALL, prefix) for prefix in PREFIXES],
    )


def _most(found: Found) -> Answer:
    """The most of a curve lies within a factor 2 of the published one."""
    most = max((_ratio(found, cache, prefix).value or 0.0) for cache in BLOCKS for prefix in PREFIXES)
    return Answer("most", f"{most:.2f} times", most)


def _once(found: Found) -> Answer:
    """Unique tokens and one copy of each prefix: but for the prefixes that were evicted within their group."""
    planned = {
        cache: max(max(each.computed for each in line) for line in found[cache][PLANNED].values()) for cache in BLOCKS
    }
    order = {
        cache: max(max(each.computed for each in line) for line in found[cache][ORDER].values()) for cache in BLOCKS
    }
    told = "; ".join(f"{cache}: {planned[cache]:.2f}, vLLM up to {order[cache]:.2f} times that" for cache in BLOCKS)
    return Answer("once", told, max(planned.values()))


def _grows(found: Found) -> Answer:
    values = [_ratio(found, SMALL, prefix).value or 0.0 for prefix in PREFIXES]
    return Answer("grows", f"{values[0]:.2f} and {values[-1]:.2f} times", values[-1] / values[0])


def _pressure(found: Found) -> Answer:
    pairs = [(_ratio(found, LARGE, each).value or 0.0, _ratio(found, SMALL, each).value or 0.0) for each in PREFIXES]
    return Answer(
        "pressure", f"times, with all of the cache: {_told(found, LARGE)}", sum(small > large for large, small in pairs)
    )


def _curve(found: Found, cache: str) -> Curve:
    lines = {
        name: [Point(prefix, sum(each.rate for each in seen) / len(seen)) for prefix, seen in line.items()]
        for name, line in found[cache].items()
    }
    return Curve(f"Requests per second with {cache}", "tokens of a prefix", "number", lines)
