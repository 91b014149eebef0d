"""Runs as data: what is simulated for a label at a place, and the figures that formulas take of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poise as ps
from poise.claims import find
from poise.claims.bench import Bench
from poise.claims.claim import Claim
from poise.claims.experiments.figures import Seen
from poise.claims.experiments.runs import measure
from poise.claims.experiments.setting import built, scenario
from poise.core.errors import UserError
from poise.policies.batch.chunked import Chunked
from tests.claims.made import HEAD, changed

TEXT = (
    HEAD
    + """
slot = "batcher"
conditions = "one device"

[setting]
slo.ttft_s = 0.4
cluster.pools = [{device = "A100", model = "llama-3.1-8b"}]
workload.poisson = {requests = 60, rate = 6, output_tokens = 30}
workload.classes.short = {share = 3, prompt_tokens = 200, deadline_s = 0.4}
workload.classes.long = {share = 1, prompt_tokens = 6000, deadline_s = 9}
[compare]
small.batcher.chunked.tokens = 512
large.batcher.chunked.tokens = 8192
[settings]
large."cluster.pools.0.engine.token_budget" = 8192
[runs.load]
across = "load, req/s"
vary = "workload.poisson.rate"
at = [4, 8]
curves = {"First token of short prompts" = "short.ttft_s.mean", "In time" = "in_time"}
[runs.once]
of = ["large"]
seeds = 1
set = {"workload.cut" = {prompt_tokens = 100}, "settings.small.cluster.pools.0.replicas" = 0}
[let]
gain = "ratio(load['small'].short.ttft_s.mean, load['large'].short.ttft_s.mean)"

[headline.gain]
asks = "sooner"
paper = "sooner"
test = {value = "gain", least = 0}
[beside.plain]
asks = "as many"
paper = "nothing is said"
test = {value = "max(once.span_s) > 0", shows = "mean(once.short.ttft_s.p50)"}
"""
)


def claim(*changes: tuple[str, str]) -> Claim:
    """The claim above with some of its text changed."""
    return changed(TEXT, *changes)


def seen(about: Claim, label: str = "small", **changes: Any) -> Seen:
    """One run of the claim."""
    bench = Bench(about)
    problem = built(scenario(about, bench, changes), label, bench)
    workload = problem.traffic.make(0)
    result = bench.simulate(problem.cluster, workload, problem.bundles[0][1], slices=True)
    return Seen(result, workload, problem)


def test_a_run_is_the_one_that_python_would_make() -> None:
    about = claim(('value = "gain"', "value = \"mean(load['small'].e2e_s.mean)\""))
    answer, _ = measure(about, Bench(about)).answers
    means = []
    for rate in (4, 8):
        runs = []
        for seed in range(3):
            load = ps.workload.poisson(rate, requests=60, output_tokens=30, seed=seed)
            kinds = {
                "short": ps.workload.RequestClass(3, 200, deadline_s=0.4),
                "long": ps.workload.RequestClass(1, 6000, deadline_s=9),
            }
            load = ps.workload.classes(load, kinds, seed=seed)
            cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b")
            runs.append(ps.simulate(cluster, load, ps.Policies(batcher=Chunked(512)), seed=seed).e2e.mean or 0.0)
        means.append(np.mean(runs))
    assert answer.values == pytest.approx(means)


def test_formulas_are_answered_and_curves_drawn_with_a_line_for_each_label() -> None:
    about = claim()
    found = measure(about, Bench(about))
    gain, plain = found.answers
    assert isinstance(gain.values, tuple) and len(gain.values) == 2
    assert plain.values is True and float(plain.text) > 0
    first, share = found.curves
    assert (first.kind, share.kind) == ("seconds", "share")
    assert [[point.x for point in line] for line in first.lines.values()] == [[4, 8]] * 2


def test_the_experiment_of_the_documents_is_measured() -> None:
    text = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    first = next(each for each in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "runs.load" in each)
    about = Claim.model_validate(tomllib.loads(TEXT[: TEXT.index("[setting]")] + first))
    (answer,) = measure(about, Bench(about, quick=True)).answers
    assert answer.key == "short" and isinstance(answer.values, tuple) and len(answer.values) == 2


def test_figures_of_a_class_and_of_a_half_are_of_its_requests_alone() -> None:
    one = seen(claim())
    arrived, first = (
        np.array(each) for each in (one.result.run.records.arrived_at, one.result.run.records.first_token_at)
    )
    took, short = (first - arrived) / 1e12, one.workload.prompt == 200
    assert one.figure("short.ttft_s.mean") == pytest.approx(took[short].mean())
    assert one.figure("long.ttft_s.p50") == pytest.approx(np.quantile(took[~short], 0.5, method="inverted_cdf"))
    assert one.figure("before.slo_attainment") == pytest.approx((took[:30] <= 0.4).mean())
    assert one.figure("after.ttft_s.q95") == pytest.approx(np.quantile(took[30:], 0.95))
    assert one.figure("in_time") == pytest.approx((took <= np.where(short, 0.4, 9)).mean())
    assert one.figure("ttft_s.p99") == one.result.ttft.p99
    assert one.figure("ttft_s.p999") == pytest.approx(took.max())


def test_figures_of_the_run_itself() -> None:
    one = seen(claim())
    records = one.result.run.records
    assert one.figure("span_s") == max(records.ended_at) / 1e12
    assert one.figure("output_rate") == pytest.approx(sum(records.output_tokens) / one.figure("span_s"))
    assert one.figure("computed_tokens") == one.workload.prompt.sum() == one.figure("unique_tokens")
    assert one.figure("busiest") == 1.0
    assert one.figure("steps") == len(one.result.run.slices) / 60
    assert 0 < one.figure("tbt_s.p99") <= one.figure("prompt_step_s")
    assert one.figure("output_tokens") == 30


def test_a_shared_prefix_is_unique_once() -> None:
    prefixes = {"workload.shared_prefixes": {"groups": 2, "prefix_tokens": 640, "zipf": 0}}
    one = seen(claim(), **prefixes)
    assert one.figure("unique_tokens") == one.workload.prompt.sum() - 60 * 640 + 2 * 640
    assert 0 <= one.figure("again_tokens") <= 60 * 640


@pytest.mark.parametrize("path", ["ttft_s.median", "short.span_s", "speed", "short.ttft_s.x9"])
def test_a_figure_that_there_is_not_is_named(path: str) -> None:
    with pytest.raises(UserError, match=r"is no figure of|is no part of"):
        seen(claim()).figure(path)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('value = "gain"', 'value = "gain", figure = "ttft_s.p99", ahead = "small"'), "a formula and a figure"),
        (('value = "gain", least', 'shows = "gain", least'), "shows a formula and asks none"),
        (("at = [4, 8]", "at = [4, 8]\neach = [{}]"), "1 mappings in `each` for 2 values"),
        (('vary = "workload.poisson.rate"\n', ""), "changes nothing along its axis"),
    ],
)
def test_a_mistake_is_reported(change: tuple[str, str], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        claim(change)


def test_a_folder_of_traces_is_found_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = find.claim("dualmap")
    trace = tmp_path / "data" / about.data[0].file
    trace.parent.mkdir(parents=True)
    trace.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    found = scenario(about, Bench(about, data=Path("data")), {})
    assert found["workload"]["trace"] == str(trace)
