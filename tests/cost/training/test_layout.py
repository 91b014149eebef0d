"""Layouts that cannot be say why, with the whole equation."""

from __future__ import annotations

import pytest

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, predict
from poise.cost.training.layout import check

JOB = Job(model("mixtral-8x7b"), device("H100"), 64, 4096, 256)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(tensor=8, pipeline=4, data=3), "tensor 8 × context 1 × pipeline 4 × data 3 = 96, but the job has 64"),
        (Layout(tensor=64), "tensor 64 does not divide the 32 heads"),
        (Layout(tensor=2, data=32, expert=8, expert_tensor=16), "expert 8 × expert_tensor 16 = 128 does not divide"),
        (Layout(data=64, expert=16), "expert 16 does not divide what mistralai/Mixtral-8x7B-v0.1 has: 8 experts"),
        (Layout(data=64, micro_batch=3), "batch 256 is no multiple of data 64 × micro_batch 3 = 192"),
        (Layout(pipeline=8, data=8, split=(4,) * 7), "split (4, 4, 4, 4, 4, 4, 4) has 7 stages of 28 layers"),
        (Layout(data=64, zero=4), "layout.zero is 4"),
        (Layout(data=0), "layout.data is 0"),
        (Layout(data=64, schedule="zb"), "schedule 'zb' is not searched; known: one_f_one_b"),
        (Layout(pipeline=2, data=32, schedule="zb_v"), "zb_v has two chunks on each rank, not 1"),
        (Layout(pipeline=2, data=32, chunks=2), "one_f_one_b has one chunk on each rank, not 2"),
    ],
)
def test_faults_are_named(layout: Layout, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        predict(JOB, layout)
    assert message in str(caught.value)


def test_experts_fold_over_attention_s_ranks() -> None:
    check(JOB, Layout(tensor=4, data=16, expert=8, expert_tensor=2))
    check(JOB, Layout(tensor=4, context=2, pipeline=2, data=4, expert=8))
