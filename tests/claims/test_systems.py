"""Every claim is well formed, what is committed is what the code would list, and quick runs come out as before."""

from __future__ import annotations

import inspect
import json
from datetime import date
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from poise.claims import claim as schema
from poise.claims import find, record, show
from poise.claims.bench import Bench, folder
from poise.claims.command import run
from poise.claims.experiments.formula import figures, parsed
from poise.claims.experiments.points import arguments
from poise.claims.picture import picture
from poise.core.slot import SLOTS
from poise.policies.find import build
from tests import doc_claims

NAMES = find.names()
TESTABLE = [name for name in NAMES if find.claim(name).criteria]
FILES = sorted(record.FOLDER.glob("*.json"))
MEASURES = sorted(file.stem for file in find.FOLDER.glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_well_formed(name: str) -> None:
    claim = find.claim(name)
    assert claim.slot in {*SLOTS, *find.MODELS}
    for policy in claim.policies:
        if claim.slot not in find.MODELS:
            build(claim.slot, Path(policy).name)  # `folder/name` where several slots have one
        assert find.file_of(policy, claim.slot).is_file()
    for policy in claim.others:
        assert find.compared_file(policy, claim.slot).is_file()
    assert claim.paper.year <= date.today().year + 1  # a claim is of a paper that was published
    for expected in (claim.published, claim.conditions, claim.here, claim.lacking):
        assert not expected.endswith(".")
    compared: dict[str, schema.SweepSection | schema.CapacitySection] = {
        **claim.sweeps, **claim.capacities, **claim.runs,
    }  # fmt: skip
    tables = {*compared, *claim.points}
    assert tables or name in MEASURES or not claim.criteria
    assert all({*each.of} <= {*claim.labels} for each in compared.values())
    for section in claim.points.values():
        for label in section.lines or [""]:
            arguments(section, label, section.at[0])
    formulas = [
        *claim.let.values(),
        *claim.shown.values(),
        *(text for each in claim.criteria.values() if each.test for text in _formulas(each.test)),
    ]
    for tree in map(parsed, formulas):
        assert {table for table, _ in figures(tree)} <= {*tables, *claim.let}
    for key, each in claim.criteria.items():
        if each.test and each.test.figure:
            assert each.test.sweep in ("", *claim.sweeps), key
        if each.test and each.test.capacity:
            assert each.test.capacity in claim.capacities, key
            assert {*each.test.times, *(label for row in each.test.order for label in row)} <= set(claim.labels), key


def _formulas(test: schema.Test) -> list[str]:
    return [text for text in (test.value, test.shows) if text]


@pytest.mark.parametrize("name", MEASURES)
def test_what_only_one_system_measures_takes_a_bench(name: str) -> None:
    measure = import_module(f"poise.claims.systems.{name}").measure
    (parameter,) = inspect.signature(measure).parameters.values()
    assert parameter.annotation == Bench.__name__
    assert find.claim(name).criteria


@pytest.mark.parametrize("name", TESTABLE)
def test_every_claim_has_its_result(name: str) -> None:
    kept = record.measured(name)
    assert kept, f"run `poise claim {name} --save`"
    keys = {each.key for each in kept.findings.answers}
    assert keys == {*find.claim(name).criteria, *find.claim(name).notes}  # nothing is measured and left untold
    for outcome in kept.outcomes:
        assert outcome.measured
        assert not (outcome.why and outcome.met)


def test_results_belong_to_systems() -> None:
    assert {file.stem for file in FILES} == set(TESTABLE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_result_holds_figures_and_nothing_that_the_claim_says(file: Path) -> None:
    result = json.loads(file.read_text(encoding="utf-8"))
    kept = record.read(result)
    assert record.compact(kept.kept()) == file.read_text(encoding="utf-8")  # nothing added, changed or left out
    assert not result["quick"]
    assert result["cpu_s"] >= 0  # closed forms take less than is told
    date.fromisoformat(result["date"])
    assert set(result["headlines"]) == set(find.claim(kept.name).headline)
    text = file.read_text(encoding="utf-8")
    for criterion in find.claim(kept.name).criteria.values():
        assert json.dumps(criterion.asks, ensure_ascii=False) not in text
    for curve in kept.findings.curves:
        assert all(len(points) > 0 for points in curve.lines.values())
        show.figures(curve)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTABLE)
def test_no_result_is_stale(name: str) -> None:
    kept = record.measured(name)
    assert kept is not None
    assert not kept.stale, f"its code has changed: run `poise claim {name} --save`, then `python -m tests.doc_claims`"


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTABLE)
def test_a_quick_run_has_the_headline_that_it_had(name: str) -> None:
    """Simulator and costs are in no digest; a change of theirs that matters shows here."""
    kept, about = record.measured(name), find.claim(name)
    assert kept is not None
    if about.data and folder(None) is None:
        pytest.skip("needs a recorded trace: POISE_DATA names no folder")
    quick = run(name, Bench(about, quick=True, data=folder(None)))
    assert record.headlines(quick) == kept.headlines, f"figures have changed: run `poise claim {name} --save`"


def test_the_page_has_the_results() -> None:
    assert doc_claims.PLACE.read() == doc_claims.table(), "run `python -m tests.doc_claims`"


def test_pages_and_pictures_are_those_of_the_results() -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in doc_claims.FOLDER.iterdir()}
    assert there == doc_claims.files(), "run `python -m tests.doc_claims`"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_sound(name: str) -> None:
    """It is XML that refers to nothing outside, and names every line that it draws."""
    kept = record.measured(name)
    for curve in kept.findings.curves if kept else ():
        drawn = picture(curve)
        if drawn is None:
            assert all(point.value is None for points in curve.lines.values() for point in points)
            continue
        root = ElementTree.fromstring(drawn)
        assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
        texts = {"".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {name for name, points in curve.lines.items() if any(p.value is not None for p in points)} <= texts
