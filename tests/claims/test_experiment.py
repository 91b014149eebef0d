"""An experiment in data: the policies of a claim under one scenario, along an axis."""

from __future__ import annotations

from typing import Any

import pytest

import poise as ps
from poise.claims.answer import Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Claim
from poise.claims.experiments.sweep import measure
from poise.core.errors import UserError
from tests.claims.made import HEAD, changed

TEXT = (
    HEAD
    + """
slot = "router"
conditions = "two devices"

[setting]
cluster.pools = [{device = "A100", model = "llama-3.1-8b", replicas = 2}]
workload.poisson = {requests = 40, prompt_tokens = 500, output_tokens.lognormal = {mean = 50, cv = 1}}

[compare]
blind.router = "round_robin"
seeing.router = "least_requests"

[sweeps.load]
across = "load, req/s"
vary = "workload.poisson.rate"
at = [4, 16]
curves = {"End to end" = "e2e_s.mean"}

[headline.ahead]
asks = "sooner"
paper = "sooner"
test = {ahead = "seeing", of = ["blind"], figure = "e2e_s.mean"}
[beside.times]
asks = "as long"
paper = "nothing is said"
test = {times = ["seeing", "blind"], figure = "e2e_s.mean", least = 1}
[beside.peak]
asks = "as long at most"
paper = "nothing is said"
test = {peak = ["seeing", "blind"], figure = "e2e_s.mean", least = 1}
[beside.rise]
asks = "the more, the longer"
paper = "nothing is said"
test = {rise = ["seeing", "blind"], figure = "e2e_s.mean", least = 1}
[beside.growth]
asks = "grows with load"
paper = "nothing is said"
test = {growth = "blind", figure = "ttft_s.mean + e2e_s.mean", above = 1}
"""
)


def claim(*changes: tuple[str, str]) -> Claim:
    """The claim above with some of its text changed."""
    return changed(TEXT, *changes)


def found(about: Claim, **options: Any) -> dict[str, Any]:
    return {each.key: each.found for each in measure(about, Bench(about, **options)).answers}


def by_hand(rate: float, router: Any, seed: int) -> ps.Result:
    """What one place of the axis is, written in Python."""
    load = ps.workload.poisson(
        rate, requests=40, prompt_tokens=500, output_tokens=ps.workload.lognormal(50, 1), seed=seed
    )
    cluster = ps.Cluster.of("A100", count=2).replicas(2, model="llama-3.1-8b")
    return ps.simulate(cluster, load, ps.Policies(router=router), seed=seed)


def test_it_is_what_python_would_run() -> None:
    from poise.policies.route.least_requests import LeastRequests
    from poise.policies.route.round_robin import RoundRobin

    findings = measure(claim(), Bench(claim()))
    (curve,) = findings.curves
    for name, router in (("blind", RoundRobin()), ("seeing", LeastRequests())):
        for point in curve.lines[name]:
            means = [by_hand(point.x, router, seed).e2e.mean or 0.0 for seed in range(3)]
            assert point.value == pytest.approx(sum(means) / 3)


def test_what_a_test_asks_is_measured() -> None:
    answers = found(claim())
    first, last = answers["times"]
    assert len(answers["ahead"]) == 2  # a lead at each place
    assert answers["peak"] == [max(answers["times"], key=lambda each: each.value)]
    assert answers["rise"] == [pytest.approx(last.value / first.value)]
    (grown,) = answers["growth"]
    assert isinstance(grown, Ratio) and grown.value is not None and grown.value > 1


def test_a_quick_run_is_shorter_and_has_two_seeds() -> None:
    about = claim(("requests = 40", "requests = 400"))
    quick, same = found(about, quick=True), found(claim(("seeds = 3", "seeds = 2")))
    assert quick == same


def test_more_seeds_are_drawn_on_request() -> None:
    assert found(claim(), times=2) == found(claim(("seeds = 3", "seeds = 6")))


def test_programs_of_sessions_are_a_figure_too() -> None:
    sessions = ("replicas = 2}]", "replicas = 2}]\nworkload.sessions = {turns = 3, think_s = 1.0}")
    answers = found(claim(sessions, ('"e2e_s.mean"', '"program_s.mean"')))
    assert all(each.value is not None for each in (*answers["ahead"], *answers["times"]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"least_requests"', '"fewest"', "setting and compare.seeing: policies.router: 'fewest' is no router"),
        ("prompt_tokens = 500", "prompt_token = 500", "prompt_token: unknown key; did you mean prompt_tokens?"),
        ('"workload.poisson.rate"', '"workload.poisson.rte"', "workload.poisson.rte: unknown key; did you mean rate?"),
    ],
)
def test_a_mistake_names_the_field(old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        found(claim((old, new)))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_each_place_may_change_more_than_one_value() -> None:
    each = 'each = [{"workload.poisson.prompt_tokens" = 100}, {"workload.poisson.prompt_tokens" = 4000}]\ncurves ='
    longer = claim(("curves =", each))
    one, two = measure(longer, Bench(longer)), measure(claim(), Bench(claim()))
    first, last = (found.answers[-1].values for found in (one, two))
    assert isinstance(first, tuple) and isinstance(last, tuple)
    assert isinstance(first[0], Ratio) and isinstance(last[0], Ratio)
    assert (first[0].value or 0) > (last[0].value or 0)  # longer prompts at the second place alone


def test_the_last_places_and_a_figure_beside_another() -> None:
    last = claim(('times = ["seeing", "blind"], figure', 'last = 1, times = ["seeing", "blind"], figure'))
    same = claim(('times = ["seeing", "blind"]', 'over = "e2e_s.mean", times = ["seeing", "blind"]'))
    whole, part, over = (
        next(each.values for each in measure(about, Bench(about)).answers if each.key == "times")
        for about in (claim(), last, same)
    )
    assert isinstance(whole, tuple) and part == whole[-1:]
    assert over == (1.0, 1.0)  # a figure beside itself


def test_a_quick_run_takes_half_of_the_time() -> None:
    assert Bench(claim(), quick=True).duration(60.0) == 30.0
    assert Bench(claim()).duration(60.0) == 60.0


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("curves =", "each = [{}]\ncurves =", "for 2 values"),
        ('vary = "workload.poisson.rate"', "", "changes nothing"),
        ("growth =", "last = 1, growth =", "without `times`"),
    ],
)
def test_an_axis_that_does_not_fit_is_named(old: str, new: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        claim((old, new))
