"""Transfers of parts of a model are, together, those of the closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.cost.training import Job, Layout, predict
from poise.cost.training.stages import stages_of
from poise.cost.training.transfers import transfers_of

JOB = Job(model("llama-3.1-8b"), device("H100"), 64, 4096, 256, nic_bw=50e9)


@pytest.mark.parametrize("zero", [0, 1])
def test_without_overlap_they_are_all_that_is_seen(zero: int) -> None:
    layout = Layout(tensor=8, data=8, zero=zero, overlap=False)
    found = transfers_of(JOB, layout, [32.0])
    total = sum(each.fixed + each.seconds for each in (*found.gradients, *found.gathers))
    assert predict(JOB, layout).parts["gradients"] == pytest.approx(total)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b", "llama-3.2-1b"])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_parts_sum_to_the_whole(name: str, zero: int) -> None:
    job = replace(JOB, model=model(name))
    layout = Layout(tensor=4, data=16, zero=zero)
    whole, parts = (transfers_of(job, layout, each) for each in ([4.0], [1.0] * 4))
    for one, several in ((whole.gradients, parts.gradients), (whole.gathers, parts.gathers)):
        assert sum(each.bytes for each in several) == pytest.approx(sum(each.bytes for each in one))
        assert sum(each.seconds for each in several) == pytest.approx(sum(each.seconds for each in one))
    assert bool(parts.gathers) == (zero > 0)


def test_a_message_is_the_hop_of_stages() -> None:
    for layout in (Layout(tensor=4, pipeline=2, data=8), Layout(tensor=2, pipeline=16, data=2)):
        found = transfers_of(JOB, layout, [1.0] * 32)
        assert found.message.fixed + found.message.seconds == pytest.approx(stages_of(JOB, layout).hop)
        assert found.far == (layout.data == 8,) * 2


def test_alone_there_are_none() -> None:
    job = replace(JOB, devices=8)
    found = transfers_of(job, Layout(tensor=8), [1.0] * 32)
    assert not found.gradients and not found.gathers
    assert transfers_of(replace(JOB, adapters=8), Layout(tensor=8, data=8), [1.0] * 32).gradients == []


def test_stages_without_gathers_do_not_wait_for_weights() -> None:
    sharded = Layout(tensor=4, pipeline=2, data=8, zero=3)
    waits, free = stages_of(JOB, sharded), stages_of(JOB, sharded, gathers=False)
    assert all(one > two for one, two in zip(waits.forward, free.forward, strict=True))
    whole = replace(sharded, zero=1)
    assert stages_of(JOB, whole) == stages_of(JOB, whole, gathers=False)
