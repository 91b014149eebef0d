"""The highest rate within limits as data: what is found, what is asked of it, and what may not be given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poise.claims.bench import Bench
from poise.claims.claim import Claim
from poise.claims.experiments.capacity import measure, searched
from tests.claims.made import changed

TEXT = re.findall(
    r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8"), re.DOTALL
)[-1]
"""The whole claim of the documents."""


def claim(*changes: tuple[str, str]) -> Claim:
    """That claim with some of its text changed."""
    return changed(TEXT, *changes)


def carried(about: Claim) -> tuple[str, object]:
    (answer,) = measure(about, Bench(about, quick=True)).answers
    return answer.text, answer.values


ORDER = ('times = ["theirs", "ours"], least = 1', 'order = [["ours"], ["theirs"]]')


def test_the_claim_of_the_documents_is_short_and_measured() -> None:
    assert len(TEXT.splitlines()) <= 40
    (answer,) = measure(claim(), Bench(claim(), quick=True)).answers
    assert answer.key == "rate"
    assert isinstance(answer.values, tuple) and len(answer.values) == 1


def test_the_rate_found_is_the_last_of_the_bisection_that_meets_the_limits() -> None:
    about = claim(("within = 1", "within = 16"), ORDER)
    text, _ = carried(about)
    rates = {float(each) for each in re.findall(r"\d+\.\d+", text)}
    assert rates <= {48.0, 40.0, 32.0, 24.0, 16.0, 8.0, 0.0}  # means of two seeds on a grid of 16


def test_no_rate_meets_limits_that_none_can_keep_and_all_do_that_none_can_miss() -> None:
    none, _ = carried(claim(("slo.ttft_s = 1", "slo.ttft_s = 1e-9"), ORDER))
    every, met = carried(claim(("slo.ttft_s = 1", "slo.ttft_s = 4e6"), ORDER))
    assert none == "load, req/s: ours 0.00, theirs 0.00"
    assert every == "load, req/s: ours 63.00, theirs 63.00"  # the last step below 64
    assert met is False  # equal rates are in no order


def test_a_rate_for_each_device_is_that_of_the_cluster_over_its_devices() -> None:
    whole = claim(("within = 1", "within = 4"), ORDER)
    parted = claim(("most = 64\nwithin = 1", "most = 32\nwithin = 2\nper_device = true"), ORDER)
    numbers = [[float(each) for each in re.findall(r"\d+\.\d+", carried(about)[0])] for about in (whole, parted)]
    assert numbers[0] == [2 * each for each in numbers[1]]


def test_a_label_may_have_a_setting_of_its_own() -> None:
    own = '[settings]\nours."cluster.pools.0.replicas" = 4\ntheirs."slo.ttft_s" = 1e-9\n\n[capacities.load]'
    text, met = carried(claim(("[capacities.load]", own), ORDER))
    assert "theirs 0.00" in text and met is True


def test_limits_may_be_of_any_figures_in_place_of_a_share() -> None:
    slow, _ = carried(claim(("within = 1", 'within = 1\nlimits = {"tbt_s.p99" = 1e9, "ttft_s.p50" = 1e-9}'), ORDER))
    assert slow == "load, req/s: ours 0.00, theirs 0.00"
    quick, _ = carried(claim(("within = 1", 'within = 1\nlimits = {"ttft_s.p50" = 1e9}'), ORDER))
    assert quick == "load, req/s: ours 63.00, theirs 63.00"


def test_a_search_may_be_of_some_labels_and_of_deadlines() -> None:
    due = ("workload.poisson", "workload.deadline_s = 1e5\nworkload.poisson")
    about = claim(due, ("within = 1", 'within = 1\nfigure = "in_time"\nof = ["ours"]'), ORDER)
    assert searched(about, Bench(about, quick=True), "load") == {"ours": [63.0, 63.0]}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('capacity = "load"', 'capacity = "load", figure = "ttft_s.p99"'), "give times"),
        (('times = ["theirs", "ours"]', 'growth = "ours"'), "give times"),
        (('capacity = "load", ' + ORDER[0], 'figure = "ttft_s.p99", ' + ORDER[1]), "give capacity"),
        (("most = 64", "most = 0"), "greater than 0"),
        (("[capacities.load]", '[settings.others]\n"slo.ttft_s" = 2\n[capacities.load]'), "for no label"),
    ],
)
def test_a_mistake_is_named(change: tuple[str, str], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        claim(change)
