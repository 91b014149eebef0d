"""Names and aliases."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue.names import Names, key
from tests.depth import examples

NAMES = Names({"H100-SXM-80GB": ["H100"], "RTX-4090": ["4090"]}, prefixes=("nvidia", "geforce"), suffixes=("card",))


@pytest.mark.parametrize("spelling", ["H100", "h100_sxm 80gb", "NVIDIA H100", "h100-card", "H-1.0/0"])
def test_case_punctuation_maker_and_suffix_do_not_matter(spelling: str) -> None:
    assert NAMES.find(spelling) == "H100-SXM-80GB"


def test_several_prefixes_may_stand_before_a_name() -> None:
    assert NAMES.find("NVIDIA GeForce RTX 4090") == "RTX-4090"


@given(
    st.sampled_from(["H100-SXM-80GB", "H100", "4090", "nvidia RTX-4090"]),
    st.lists(st.sampled_from(" -_./"), max_size=20),
)
def test_punctuation_anywhere_changes_nothing(spelling: str, marks: list[str]) -> None:
    padded = "".join(a + b for a, b in zip_longest(spelling.swapcase(), marks, fillvalue=""))
    assert NAMES.find(padded) == NAMES.find(spelling) is not None


@pytest.mark.deep
@settings(max_examples=examples(100))
@given(st.text(max_size=20))
def test_any_text_has_near_names_and_is_found_only_by_its_compared_form(text: str) -> None:
    assert set(NAMES.nearest(text)) == {"H100-SXM-80GB", "RTX-4090"}
    assert NAMES.find(text) == NAMES.find(key(text))


def test_the_nearest_name_comes_first() -> None:
    assert NAMES.nearest("H200") == ["H100-SXM-80GB", "RTX-4090"]


def test_one_spelling_cannot_name_two_things() -> None:
    with pytest.raises(ValueError, match="names both"):
        Names({"one": ["x-1"], "two": ["X1"]})
