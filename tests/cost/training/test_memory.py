"""Bytes of training against the closed forms of papers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, shape
from poise.cost.training.activations import activation, layer_activation
from poise.cost.training.columns import columns
from poise.cost.training.figures import Figures
from poise.cost.training.memory import CLASSES, by_class, peak
from poise.cost.training.schedules import held

GPT = shape(24, 2048, 16, vocab=51200)
JOB = Job(GPT, device("A100"), 64, 1024, 512, attention="fused", dropout=True)


@pytest.mark.parametrize(("tensor", "sequence_parallel"), [(1, False), (2, False), (4, True), (8, False), (8, True)])
def test_a_layer_keeps_what_korthikanti_says(tensor: int, sequence_parallel: bool) -> None:
    layout = Layout(tensor=tensor, data=64 // tensor, micro_batch=2, sequence_parallel=sequence_parallel)
    sbh, scores = 1024 * 2 * 2048, 5 * 16 * 1024 / 2048
    outside = 10 / tensor if sequence_parallel else 10
    expected = sbh * (outside + 24 / tensor + scores / tensor)
    assert activation(JOB, columns(JOB, [layout]))[0] == pytest.approx(expected)


def test_recomputation_keeps_less() -> None:
    layouts = [Layout(data=64, recompute=how) for how in ("none", "selective", "full")]  # type: ignore[arg-type]
    kept = layer_activation(JOB, columns(JOB, layouts))
    sbh = 1024 * 2048
    assert kept.tolist() == pytest.approx([sbh * (34 + 40), sbh * 34, sbh * 2])


def test_states_are_16_bytes_a_weight_and_shards_divide_them() -> None:
    """ZeRO (Rajbhandari 2020), figure 1: 2 + 2 + 12 bytes; stage by stage one class more is divided."""
    values = GPT.parameters
    for zero, divided in ((0, ()), (1, (12,)), (2, (2, 12)), (3, (2, 2, 12))):
        cut = columns(JOB, [Layout(data=64, zero=zero, gradient_bytes=2)])
        found = by_class(JOB, cut, Figures(), "first")
        total = sum(float(found[name][0]) for name in ("weights", "gradients", "optimizer"))
        assert total == pytest.approx(values * (16 - sum(divided) + sum(divided) / 64), rel=1e-3)


def test_earlier_ranks_of_1f1b_hold_more() -> None:
    cut = columns(JOB, [Layout(pipeline=8, data=8)])
    kinds, many = (cut.schedule, cut.pipeline, cut.chunks), np.array([64])
    assert [float(held(*kinds, np.array([rank]), many)[0]) for rank in range(8)] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert float(held(*kinds, np.array([0]), np.array([3]))[0]) == 3


def test_the_peak_is_that_of_its_fullest_rank() -> None:
    layouts = [Layout(pipeline=8, data=8), Layout(pipeline=8, data=8, micro_batch=4, recompute="full")]
    cut = columns(JOB, layouts)
    total, classes = peak(JOB, cut, Figures())
    ranks = [by_class(JOB, cut, Figures(), where) for where in ("first", "middle", "last")]
    highest = np.max([sum(each.values()) for each in ranks], axis=0)
    assert total.tolist() == pytest.approx(highest.tolist())
    assert total.tolist() == pytest.approx(sum(classes[name] for name in CLASSES).tolist())


def test_gathered_logits_are_on_every_rank() -> None:
    layout = Layout(tensor=8, data=8, micro_batch=8)
    own = peak(JOB, columns(JOB, [layout]), Figures())[1]["logits"][0]
    whole = peak(replace(JOB, gathered=True), columns(JOB, [layout]), Figures())[1]["logits"][0]
    assert whole / own == pytest.approx(8 * 20 / 10)
