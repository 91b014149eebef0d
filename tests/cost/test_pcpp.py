"""Patches that see parts of their neighbours: limits at which PCPP is DistriFusion, and what it spares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import UserError
from poise.cost.pcpp import SDXL, Patches, images

PATCHES = Patches(device("A100"), 4, 2048)


@given(st.integers(1, 8), st.floats(0, 1), st.sampled_from((1024, 2048, 3840)))
def test_no_device_sees_more_than_the_image(count: int, part: float, side: int) -> None:
    patches = Patches(device("A100"), count, side, part)
    assert 1 / count <= patches.seen() <= 1
    assert patches.compute_s(1 / count) <= patches.compute_s(patches.seen())


def test_two_devices_that_receive_all_compute_what_distrifusion_does() -> None:
    """And send as much."""
    patches = Patches(device("A100"), 2, 2048, part=1.0)
    assert patches.seen() == 1.0
    assert images(device("A100"), 2, 2048, part=1.0).sent == 1.0
    assert patches.passed_s() == pytest.approx(patches.gathered_s(), rel=1e-9)


def test_one_device_is_the_image() -> None:
    found = images(device("A100"), 1, 1024)
    assert found.alone_s == found.whole_s == found.part_s and found.sent == 0


def test_bytes_of_a_patch_are_its_keys_and_values() -> None:
    """Two images (guidance), keys and values, 2 bytes each."""
    for level in SDXL:
        assert PATCHES.bytes(level) == 2 * 2 * 2 * level.hidden * (2048 // level.side) ** 2 / 4


def test_without_links_the_gain_is_the_attention_that_is_spared() -> None:
    fast = replace(device("A100"), scaleup_bw=1e18)
    found, patches = images(fast, 8, 3840), Patches(fast, 8, 3840)
    spared = patches.compute_s(1.0) / patches.compute_s(patches.seen())
    assert found.whole_s / found.part_s == pytest.approx(spared, rel=0.01)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="a part of 0 up to 1"):
        Patches(device("A100"), 4, 1024, part=1.5)
