"""Every claim is well formed, and what is committed of it is what the code would list."""

from __future__ import annotations

import inspect
import json
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from poise.claims import find, groups, record, show
from poise.claims.bench import Bench
from poise.claims.claim import verdict
from poise.claims.picture import picture
from poise.core.slot import SLOTS
from poise.policies.find import build
from tests import doc_claims

NAMES = find.names()
TESTABLE = [name for name in NAMES if not find.claim(name).untestable]
FILES = sorted(record.FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_well_formed(name: str) -> None:
    claim = find.claim(name)
    assert claim.slot in {*SLOTS, *find.MODELS}
    assert claim.policies
    for policy in claim.policies:
        if claim.slot not in find.MODELS:
            build(claim.slot, Path(policy).name)  # `folder/name` where several slots have one
        assert find.file_of(policy, claim.slot).is_file()
    for policy in claim.others:
        assert find.policy_file(policy).is_file()
    assert 1970 < claim.year <= date.today().year + 1  # a claim is of a paper that was published
    assert claim.headline and claim.conditions and claim.paper
    for source in claim.data:
        assert source.published.startswith("https://")
    for said in (claim.headline, claim.conditions, claim.here, claim.untestable):
        assert not said.endswith(".")


@pytest.mark.parametrize("name", TESTABLE)
def test_what_can_be_tried_has_an_experiment(name: str) -> None:
    (parameter,) = inspect.signature(find._module(name).measure).parameters.values()
    assert parameter.annotation == Bench.__name__
    assert find.claim(name).here


@pytest.mark.parametrize("name", TESTABLE)
def test_every_claim_has_its_result(name: str) -> None:
    assert record.measured(name), f"run `poise claim {name} --save`"


def test_results_belong_to_systems() -> None:
    assert {file.stem for file in FILES} == set(TESTABLE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_results_are_what_their_criteria_say(file: Path) -> None:
    told = json.loads(file.read_text(encoding="utf-8"))
    kept = record.read(told)
    assert record.text(kept.as_dict()) == file.read_text(encoding="utf-8")  # nothing added, changed or left out
    assert told["verdict"] == verdict(kept.findings.criteria)
    assert not told["quick"]
    assert told["cpu_s"] >= 0  # closed forms take less than is told
    date.fromisoformat(told["date"])
    assert any(each.headline for each in kept.findings.criteria)
    for criterion in kept.findings.criteria:
        assert criterion.asks and criterion.paper and criterion.measured
        assert not (criterion.why and criterion.met)
    for curve in kept.findings.curves:
        assert all(len(points) > 0 for points in curve.lines.values())
        show.figures(curve)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTABLE)
def test_no_result_is_stale(name: str) -> None:
    kept = record.measured(name)
    assert kept is not None
    assert not kept.stale, f"its code has changed: run `poise claim {name} --save`, then `python -m tests.doc_claims`"


def test_the_page_has_the_results() -> None:
    assert doc_claims.PLACE.read() == doc_claims.table(), "run `python -m tests.doc_claims`"


def test_the_pictures_are_those_of_the_results() -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in doc_claims.PICTURES.glob("*.svg")}
    assert there == doc_claims.pictures(), "run `python -m tests.doc_claims`"


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


@pytest.mark.parametrize("name", NAMES)
def test_a_system_has_a_group(name: str) -> None:
    assert groups.group_of(name, find.claim(name)) in groups.GROUPS
    assert find.claim(name).slot in groups._BY_SLOT
