"""All published systems are listed, whether built or not, and found by name, arXiv id, slot and group."""

from __future__ import annotations

import csv
import io
import re

import pytest

from poise.catalogue import device
from poise.claims import find
from poise.claims.listed import FILE, Listed, by_group, find_listed, groups, how, listed
from poise.claims.show import NO_CLAIM, NOT_BUILT, show_system, standing
from poise.core.errors import UserError
from tests.doc_table import DOCS

ENTRIES = listed()
ROOT = DOCS.parent


def one(text: str) -> Listed:
    (found,) = find_listed(text)
    return found


def test_the_list_has_220_systems_and_those_beside_it() -> None:
    assert len({each.id for each in ENTRIES if each.id}) == 220
    assert len({each.name for each in ENTRIES}) == len(ENTRIES)
    beside = [each for each in ENTRIES if not each.id]
    assert all(each.claims for each in beside)
    with FILE.open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 220


def test_every_claim_is_listed_once() -> None:
    assert sorted(name for each in ENTRIES for name in each.claims) == sorted(find.names())


@pytest.mark.parametrize("name", find.names())
def test_a_claim_agrees_with_the_list(name: str) -> None:
    about = find.claim(name)
    (entry,) = [each for each in ENTRIES if name in each.claims]
    assert bool(about.paper.ids) != bool(about.paper.group)  # what is in the list has its group from there
    assert about.paper.group in ("", *groups())
    if about.paper.arxiv:
        assert entry.arxiv == about.paper.arxiv


def test_ids_are_well_formed() -> None:
    for each in ENTRIES:
        assert re.fullmatch(r"(\d{4}\.\d{4,5})?", each.arxiv), each.name
        assert re.fullmatch(r"[a-z0-9_]+", each.name)
        assert each.tier in (0, 1, 2, 3) and each.title and each.group
    known = [each.arxiv for each in ENTRIES if each.arxiv]
    assert len(known) == len(set(known))


def test_what_stands_for_a_system_is_there() -> None:
    for each in ENTRIES:
        if each.claims or not each.built:
            assert bool(each.stands) == each.built
            continue
        for name in each.stands:
            if each.slot == "planner":
                assert (ROOT / "poise" / "plan" / "training" / f"{name}.py").is_file()
            elif each.slot == "export":
                assert (ROOT / "poise" / "plan" / "training" / "exports" / f"{name}.py").is_file()
            else:
                assert each.slot == "device" and device(name)
        assert how(each)


@pytest.mark.parametrize("text", ["llumnix", "2406.03243", "arXiv:2406.03243", "Llumnix"])
def test_one_is_found_by_name_and_by_arxiv_id(text: str) -> None:
    assert one(text).claims == ("llumnix",)


def test_a_system_of_two_claims_is_found_by_either() -> None:
    assert one("aibrix") is one("aibrix_scaling")
    assert one("aibrix").claims == ("aibrix_prefix", "aibrix_scaling")


def test_all_of_a_slot_or_a_group_are_found() -> None:
    assert {"llumnix", "preble"} <= {each.name for each in find_listed("router")}
    assert {each.group for each in find_listed("pipeline")} == {"pipeline schedules"}
    assert "gpipe" in {each.name for each in find_listed("schedule")}
    assert by_group(find_listed("pipeline")) == {"pipeline schedules": find_listed("pipeline")}


@pytest.mark.parametrize("text", ["gpipee", "", "9999.99999"])
def test_what_there_is_not_is_answered_with_the_nearest(text: str) -> None:
    with pytest.raises(
        UserError, match=r"is no name, arXiv id, slot or group of a system; (did you mean gpipe|groups)"
    ):
        find_listed(text)


def shown(entry: Listed) -> str:
    out = io.StringIO()
    show_system(entry, out)
    return out.getvalue()


def test_what_has_no_claim_says_where_it_is() -> None:
    entry = Listed("mine", "Mine", "A device", "", "hardware what-ifs", 1, 3, "device", ("H100",))
    assert "device H100: a row of `poise devices`" in shown(entry)
    assert "Claim not made yet." in shown(entry)
    assert standing(entry) == NO_CLAIM


def test_what_a_claim_says_of_use_is_shown() -> None:
    assert "Use: poise train schedule gpipe" in shown(one("gpipe"))


def test_what_is_not_built_is_stated_plainly() -> None:
    entry = Listed("mine", "Mine", "A paper", "", "experts")
    assert shown(entry).endswith("Not built.\n")
    assert standing(entry) == NOT_BUILT
