"""A queue of blocks in a pipeline of layers: the closed form is what is played, and limits of both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import UserError
from poise.cost.dual_paral import Film, Video, played

VIDEO = Video(device("RTX-4090"), 8, 1025)


def test_the_published_video() -> None:
    """1,025 frames are 257 latents (a first frame, and four for each other), in blocks of 8."""
    assert (VIDEO.latents, VIDEO.blocks) == (257, 33)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 10))
def test_slots_are_those_of_blocks_played_one_by_one(blocks: int, steps: int, devices: int) -> None:
    video = Video(device("A100"), devices, 4 * (8 * blocks - 1) + 1, steps=steps)
    assert video.blocks == blocks and video.slots() == played(blocks, steps, devices)


@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 8))
def test_no_block_is_lost_and_one_device_is_never_idle(blocks: int, steps: int, devices: int) -> None:
    video = replace(VIDEO, count=devices, frames=4 * (8 * blocks - 1) + 1, steps=steps)
    assert blocks * steps + devices - 1 <= video.slots() <= blocks * steps * devices
    assert replace(video, count=1).slots() == blocks * steps


def test_one_block_that_sees_only_itself_is_the_whole_video() -> None:
    """On one device both ways compute the same then."""
    video = Video(device("RTX-4090"), 1, 29, around=0)
    assert video.blocks == 1 and video.queue_s() == pytest.approx(video.whole_s(), rel=1e-12)


def test_attention_to_everything_grows_by_the_square() -> None:
    thin = Film(hidden=64, inner=64)
    one, two = (replace(VIDEO, frames=frames, film=thin) for frames in (40_001, 80_001))
    assert two.whole_s() / one.whole_s() == pytest.approx(4, rel=0.02)
    assert two.queue_s() / one.queue_s() == pytest.approx(2, rel=0.02)


def test_what_is_not_counted_is_refused() -> None:
    with pytest.raises(UserError, match="give 1 or more"):
        replace(VIDEO, frames=0)
