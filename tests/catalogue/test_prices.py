"""One shipped basis prices a fleet, the newest that covers it, and no other is mixed in."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from poise.catalogue import bases, device, devices
from poise.catalogue.prices import basis_for
from poise.core.errors import UserError

PRICED = [each.name for each in devices() if bases(each.name)]
ALL = {basis for name in PRICED for basis in bases(name)}
RUNPOD = "RunPod secure cloud list price, read 2026-08"


def _date(basis: str) -> str:
    return basis.rpartition(" ")[2]


@pytest.mark.parametrize("basis", sorted(ALL))
def test_every_basis_ends_in_its_date(basis: str) -> None:
    assert re.fullmatch(r"20\d\d(-(0[1-9]|1[0-2]))?", _date(basis))


@pytest.mark.parametrize("name", PRICED)
def test_every_price_is_positive_and_has_a_source(name: str) -> None:
    assert all(dollars > 0 for dollars in bases(name).values())
    assert "price" in device(name).source or "constants.ts" in device(name).source


def test_the_devices_that_are_planned_with_most_share_one_basis() -> None:
    common = ["L4", "L40S", "A40", "A100", "H100", "H200", "B200", "RTX-4090", "RTX-6000-Ada", "MI300X"]
    assert basis_for(common) == RUNPOD
    assert basis_for(reversed(common)) == RUNPOD


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_basis_covers_all_and_none_that_does_is_newer(count: int) -> None:
    """Over every set of so many priced devices; where it is refused, no basis covers the set."""
    for names in combinations(PRICED, count):
        covering = set.intersection(*(set(bases(name)) for name in names))
        if covering:
            found = basis_for(names)
            assert found in covering
            assert _date(found) == max(map(_date, covering))
        else:
            with pytest.raises(UserError, match="no one price basis covers"):
                basis_for(names)


def test_spot_is_never_taken_for_a_price_that_holds() -> None:
    """A spot basis covers no device that its provider's list prices leave out, so those go before it."""
    spot = {basis for basis in ALL if "spot" in basis}
    assert spot
    assert not spot & {basis_for([name]) for name in PRICED}
    for name in PRICED:
        for basis in spot & set(bases(name)):
            assert bases(name)[basis] < bases(name)[basis.replace("spot", "on-demand list")]


def test_what_a_device_costs_by_default_is_what_it_was() -> None:
    assert device("H100").price_per_hour == 3.99
    assert device("L4").price_basis == "on-demand, 2024"
    assert device("A40").price_basis == RUNPOD


def test_aliases_name_the_same_devices() -> None:
    assert basis_for(["h100", "NVIDIA A10G"]) == basis_for(["H100-SXM-80GB", "A10G"]) == "on-demand, 2024"


def test_what_is_lacking_is_named_with_the_cure() -> None:
    with pytest.raises(UserError) as caught:
        basis_for(["A10G", "H200"])
    message = str(caught.value)
    assert "covers A10G, H200-SXM-141GB" in message
    assert f"{RUNPOD!r} lacks A10G" in message
    assert "--prices FILE" in message and "--minimize gpus or energy" in message and "\n" not in message


def test_a_device_without_any_price_is_named_alone() -> None:
    with pytest.raises(UserError, match=r"^no price is known for T4, TPU-v4; give your own prices with --prices FILE"):
        basis_for(["H100", "T4", "TPU-v4"])


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(UserError, match="'H300' is not built in"):
        basis_for(["H300"])
