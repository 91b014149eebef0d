"""The first sentence of a comparison: which policy to take, and how much load each one carries."""

from __future__ import annotations

from dataclasses import replace

from poise.core.spec import Slo
from poise.report.intervals import Interval
from poise.report.table import WIDTH
from poise.report.wording import write
from poise.scenario.compare.collapse import collapse, probe
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.findings import findings
from poise.scenario.compare.show import tables

from .planted import comparison


def several(*slower: float, requests: int = 3_000) -> Comparison:
    """A comparison at loads 1, 2, …, in each of which B is so many times slower than A."""
    found = comparison(1, requests, 1.0)
    cells = {}
    for load, factor in enumerate(slower, start=1):
        for place, cell in comparison(load, requests, factor).cells.items():
            there = place._replace(load=float(load))
            cells[there] = replace(cell, place=there)
    loads = tuple(float(load) for load in range(1, len(slower) + 1))
    offered = {load: {"requests": requests, "independent": requests, "rate": 1.0} for load in loads}
    return Comparison(replace(found.study, loads=loads), cells, offered)


def carrying(found: Comparison, **most: float) -> Comparison:
    """The same, with a policy that carries every load up to its own."""
    slo, calm = Slo(e2e_s=1.0), Interval(0.0)
    for name, limit in most.items():
        probes = [probe(load, Interval(float(load <= limit), 0.0), calm, slo, 0.9) for load in found.study.loads]
        found.collapses[name] = collapse([each for each in probes if each is not None])
    return found


def test_the_best_at_every_load_is_to_be_taken() -> None:
    found = several(1.5, 2.0)
    gap = found.interval("B", "e2e_s.mean", 1.0, against="A")
    assert found.answer().startswith("Take A: at load 1 E2E mean is ")
    assert write(gap.value, "seconds", 3) in found.answer() and write(gap.half, "seconds", 2) in found.answer()
    assert found.answer().endswith(" less than under B, best at load 2 too.")


def test_as_good_as_any_is_good_enough() -> None:
    answer = several(1.0, 2.0).answer()
    assert answer.startswith("Take A: at load 2 E2E mean is ") and answer.endswith(", as good as any at load 1.")


def test_it_depends_on_the_load_where_it_does() -> None:
    answer = several(2.0, 0.5).answer()
    assert answer == "No policy is the best by E2E mean at every load: A leads at load 1, B leads at load 2."


def test_among_equals_any_will_do_unless_one_carries_more() -> None:
    assert several(1.0).answer().startswith("Take any: by E2E mean no difference is beyond chance at load 1 (equal")
    even = carrying(several(1.0, 1.0), A=1, B=1).answer()
    assert even.startswith("Take any: ") and even.endswith("; no headroom over the load of now.")
    more = carrying(several(1.0, 1.0), A=1, B=2).answer()
    assert more == "Take B: as good as any at load 1 and 2; at least 2× headroom over the load of now (A 1×)."


def test_policies_that_carry_nothing_are_listed_in_few_words() -> None:
    assert carrying(several(1.5), A=0, B=0).answer().endswith("; it carries no load that was tried.")


def test_one_policy_is_no_choice() -> None:
    found = several(1.0)
    alone = {place: cell for place, cell in found.cells.items() if place.policy == "A"}
    assert Comparison(found.study, alone, found.offered).answer() == ""


def test_it_is_the_first_line_and_in_the_json_and_the_belief_is_the_last() -> None:
    found = several(2.0)
    text = tables(found).splitlines()
    assert text[0] == found.answer() == found.as_dict()["answer"] == findings(found).answer
    assert text[-1].startswith("Belief") and text[2].startswith("Load 1")
    assert max(len(line) for line in text if ": " not in line) <= WIDTH
