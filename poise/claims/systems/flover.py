"""Flover: newcomers join at each token, instead of waiting for a static batch to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings
from poise.claims.sweep import Sweep, swept, times
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.batch.static_batch import StaticBatch

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison

CLAIM = Claim(
    system="Flover",
    paper="arXiv 2305.13484",
    year=2023,
    slot="batcher",
    policies=("prefill_first",),
    others=("static_batch",),
    headline="11 times (GPT) and 16 times (LLaMA) as fast as FasterTransformer for requests that come at random",
    conditions="GPT-J and LLaMA on A100; requests at intervals, generation of given lengths",
    here="llama-7b on an A100 by roofline steps; static batches of 32 that answer each request at its own end; prompts "
    "of 128 tokens, outputs of 256 in the mean; newcomers' prompts first, then all decodes at each token (the rule of "
    "Orca, which Flover shares but for paging)",
    trust="abstract",
)

SPREADS = (0.01, 0.5, 1.0, 1.5)
"""Standard deviation over mean of the outputs' lengths."""
RATE, REQUESTS, SEEDS = 2.0, 800, 5
FUSED, STATIC = "iteration-level", "static"
E2E, TTFT = "e2e_s.mean", "ttft_s.mean"
BUNDLES = {FUSED: ps.Policies(batcher=PrefillFirst()), STATIC: ps.Policies(batcher=StaticBatch())}


def measure(bench: Bench) -> Findings:
    """Spreads of lengths at one load, and loads at one spread."""
    spreads = swept("spread of outputs", SPREADS, lambda spread: _at(bench, RATE, spread))
    loads = swept("load, req/s", (0.5, 1.0, 2.0, 3.0), lambda rate: _at(bench, rate, 1.0))
    criteria = [
        loads.ahead(
            "Shorter from arrival to end at 3 loads or more", "11 to 16 times", E2E, FUSED, [STATIC], places=3,
            headline=True,
        ),
        _grows(spreads),
        loads.ahead("Sooner first tokens at every load", "newcomers join at the next token", TTFT, FUSED, [STATIC]),
    ]  # fmt: skip
    return Findings(criteria, [spreads.curve("E2E by spread", E2E), loads.curve("E2E by load", E2E)])


def _at(bench: Bench, rate: float, spread: float) -> Comparison:
    engine = ps.Engine(prefix_caching=False)
    cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-7b", engine=engine)

    def made(seed: int, load: float) -> ps.workload.Workload:
        return ps.workload.poisson(
            rate * load, requests=bench.requests(REQUESTS), prompt_tokens=128,
            output_tokens=ps.workload.lognormal(256, spread, 1500), seed=seed,
        )  # fmt: skip

    return bench.compare(f"{rate:g} req/s, {spread:g}", cluster, made, BUNDLES, by=E2E, seeds=bench.seeds(SEEDS))


def _grows(sweep: Sweep) -> Criterion:
    found = {spread: sweep.ratio(spread, E2E, FUSED, STATIC) for spread in SPREADS}
    values = [each.value or 0.0 for each in found.values()]
    return Criterion(
        "The ratio grows with the spread of lengths", "a static batch lasts as long as its longest",
        "; ".join(f"{spread:g}: {times(each)} times" for spread, each in found.items()), values == sorted(values),
        headline=True,
    )  # fmt: skip
