"""Routers that match prefixes say so where the requests have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import poise as ps
from poise.cli import main
from poise.policies import Policies
from poise.policies.find import build, names
from poise.policies.order.deficit_longest_prefix import DeficitLongestPrefix
from poise.policies.route.round_robin import RoundRobin
from poise.scenario.identity import blind, blind_line
from poise.workload import poisson, shared_prefixes

SCENARIO = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 2}]}
workload: {trace: trace.csv}
policies: {router: [least_requests, prefix_cache, min_ttft]}
"""
CURE = "give the trace hash_ids, or add workload.shared_prefixes or workload.sessions"


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario on a trace without prefix identity; the command runs beside it."""
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{at / 50},{200 + at},{5 + at % 9}" for at in range(100))
    Path("trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    Path("scenario.yaml").write_text(SCENARIO)
    return tmp_path / "scenario.yaml"


def test_a_comparison_says_it_on_the_terminal_in_the_json_and_in_the_report(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "The requests have no prefix identity: prefix_cache goes by the fewest requests, min_ttft goes by the least "
        f"queued work, and no prompt hits a cache. To compare by prefix, {CURE}."
    )
    assert main(["compare", "scenario.yaml", "--jobs", "1", "--out", "out"]) == 0
    assert capsys.readouterr().out.count(text) == 1
    result = json.loads(Path("out/result.json").read_text())["loads"][0]["policies"]
    why = f"the requests have no prefix identity, so it goes by the fewest requests, and no prompt hits a cache; {CURE}"
    assert result["prefix_cache"]["notes"]["prefix_hit_rate"] == why
    assert "prefix_hit_rate" not in result["least_requests"]["notes"]
    assert why in Path("out/report.html").read_text()


def test_a_run_warns_of_a_router_that_was_requested(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--router", "prefix_cache"]) == 0
    assert f"no prompt hits a cache; {CURE}" in capsys.readouterr().out
    assert main(["simulate", "scenario.yaml", "--router", "least_requests"]) == 0
    assert "prefix identity" not in capsys.readouterr().out
    scenario.write_text(SCENARIO.replace("policies: {router: [least_requests, prefix_cache, min_ttft]}\n", ""))
    assert main(["simulate", "scenario.yaml"]) == 0
    assert "prefix identity" not in capsys.readouterr().out, "nobody chose the default for its prefixes"


def test_there_is_no_warning_where_requests_have_identity(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = "workload.shared_prefixes={groups: 3, prefix_tokens: 100}"
    assert main(["compare", "scenario.yaml", "--jobs", "1", "--set", shared]) == 0
    assert "prefix identity" not in capsys.readouterr().out


def test_python_says_it_with_the_table() -> None:
    cluster = ps.Cluster.of("H100", count=1).replicas(1, model="poise/tiny")
    policies = {"mine": ps.Policies(router=build("router", "preble"))}
    bare = poisson(50, requests=40, prompt_tokens=100, output_tokens=5)
    assert "mine goes by the least load" in str(ps.compare(cluster, bare, policies))
    assert "identity" not in str(ps.compare(cluster, shared_prefixes(bare, groups=2, prefix_tokens=50), policies))


class Own(RoundRobin):
    """A router of one's own that reads what is cached."""

    needs = ("cached_tokens",)


def test_an_order_and_a_router_of_ones_own_that_read_cached_tokens_are_found() -> None:
    own, order = Policies(router=Own()), Policies(router=RoundRobin(), order=DeficitLongestPrefix())
    bundles = {"own": own, "order": order}
    assert blind(bundles, {"rate": 1.0}) == {"own": "load alone", "order": "load alone"}
    text = "The requests have no prefix identity: own and order go by load alone"
    assert blind_line(blind(bundles, {"rate": 1.0})).startswith(text)
    assert blind_line({}) == ""


@pytest.mark.parametrize("name", names("router"))
def test_a_built_in_router_that_matches_prefixes_says_what_it_goes_by(name: str) -> None:
    """`pull` takes whoever waits for the replica that has room, by load alone."""
    router = build("router", name)
    if "cached_tokens" in router.needs and name != "pull":
        assert router.without_prefixes
