"""MegaScale's changes: each shortens the step, none of them is counted twice, and the last is a larger batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.megascale import BATCHES, CHANGES, stepped

JOB = Job(shape(48, 8192, 64, vocab=64000), device("A100"), 128, 2048, 128)
LAYOUT = Layout(tensor=8, pipeline=4, data=4, chunks=6, schedule="interleaved")


def test_every_change_raises_utilisation() -> None:
    found = [stepped(JOB, LAYOUT, taken) for taken in range(len(CHANGES) + 1)]
    assert all(one.mfu < two.mfu for one, two in pairwise(found))
    assert all(one.seconds > two.seconds for one, two in pairwise(found[:-1]))


def test_tokens_and_utilisation_agree_with_the_step() -> None:
    for taken in (0, len(CHANGES)):
        found, batch = stepped(JOB, LAYOUT, taken), JOB.batch * (BATCHES if taken else 1)
        assert found.tokens_per_device * found.seconds * JOB.devices == pytest.approx(batch * JOB.sequence)
    assert stepped(JOB, LAYOUT, 8).mfu / stepped(JOB, LAYOUT, 8).tokens_per_device == pytest.approx(
        stepped(JOB, LAYOUT, 0).mfu / stepped(JOB, LAYOUT, 0).tokens_per_device
    )


def test_without_tensor_ranks_or_a_pipeline_there_is_nothing_of_theirs_to_hide() -> None:
    alone = Layout(data=128, zero=3)
    small = replace(JOB, model=shape(24, 2048, 16))
    assert stepped(small, alone, 2).seconds == pytest.approx(stepped(small, alone, 4).seconds)
    given = replace(small, fused="norms")
    assert stepped(small, alone, 1).seconds > predict(given, replace(alone, overlap=False)).seconds  # FlashAttention 1
