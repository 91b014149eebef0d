"""Recomputation by operation: each frees its own bytes for its own time, and layouts that ran are found to fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, predict, shape
from poise.cost.training.activations import activation, layer_activation
from poise.cost.training.columns import columns
from poise.cost.training.layout import OPERATIONS

MIXED = Job(model("deepseek-v3"), device("H800"), 256, 4096, 256, precision="fp8", nic_bw=50e9)
SPREAD = Layout(pipeline=4, data=64, expert=64, zero=1)


def _with(*operations: str) -> Layout:
    return replace(SPREAD, recompute="operations", operations=operations)


def test_operations_are_independent() -> None:
    """What two operations free, and take, is the sum of both; but for halved products, which halve what is left."""
    plain = predict(MIXED, SPREAD).seconds
    kept = float(layer_activation(MIXED, columns(MIXED, [SPREAD]))[0])
    names = [each for each in OPERATIONS if each != "products"]
    freed = {name: kept - float(layer_activation(MIXED, columns(MIXED, [_with(name)]))[0]) for name in names}
    taken = {name: predict(MIXED, _with(name)).seconds - plain for name in names}
    assert all(freed[name] > 0 for name in names if name != "attention")
    assert all(taken[name] > 0 for name in names)
    for one, two in combinations([each for each in names if each != "activation"], 2):
        both = _with(one, two)
        left = float(layer_activation(MIXED, columns(MIXED, [both]))[0])
        assert kept - left == pytest.approx(freed[one] + freed[two])
        assert predict(MIXED, both).seconds - plain == pytest.approx(taken[one] + taken[two], rel=0.02)


def test_norms_and_activation_functions_free_what_products_read() -> None:
    """Llama: two norms' outputs, 2 × 2sbh, and the inner width once, 2sbf (Korthikanti 2022, section 4)."""
    job = Job(shape(4, 1024, 8, ffn=4096, gated=True), device("H100"), 1, 2048, 8)
    kept = {
        names: float(activation(job, columns(job, [Layout(recompute="operations", operations=names)]))[0])
        for names in ((), ("norm",), ("activation",))
    }
    assert kept[()] - kept["norm",] == 4 * 2048 * 1024
    assert kept[()] - kept["activation",] == 2 * 2048 * 4096


def test_products_in_8_bits_keep_their_inputs_so() -> None:
    wide = Job(shape(4, 1024, 8, ffn=4096, gated=True), device("H100"), 1, 2048, 8)
    narrow = replace(wide, precision="fp8")
    cut = columns(wide, [Layout()])
    saved = float(activation(wide, cut)[0] - activation(narrow, cut)[0])
    assert saved == 2048 * (2 * 1024 + 4096)


@pytest.mark.parametrize("names", [("norm",), ("norm", "activation", "mla"), OPERATIONS])
def test_columns_give_operations_back(names: tuple[str, ...]) -> None:
    layout = _with(*names)
    assert columns(MIXED, [layout]).layout(0, MIXED) == layout
    assert "+".join(names) in layout.label()


def test_an_unknown_operation_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"layout\.operations has 'rope'; known are attention, norm"):
        predict(MIXED, _with("rope"))


def test_deepseek_v3_fits_as_it_was_trained() -> None:
    """2,048 H800, 16 stages, 64 ranks of experts, ZeRO-1; norms, SwiGLU and up-projections again (2412.19437)."""
    ran = Job(model("deepseek-v3"), device("H800"), 2048, 4096, 15360, precision="fp8_block", nic_bw=50e9)
    job = replace(ran, paired=True)
    layout = Layout(pipeline=16, data=128, expert=64, schedule="zb_h1", recompute="operations")
    found = predict(job, layout)
    assert found.fits(job)
    assert not predict(job, replace(layout, recompute="none")).fits(job)
    # 180,000 device-hours a trillion tokens (table 1)
    assert found.tokens_per_device == pytest.approx(1e12 / 180e3 / 3600, rel=0.12)


def test_llama_3_70b_fits_as_it_was_measured() -> None:
    """Megatron-Bridge's layout on 64 H100: tensor 4, eight stages of five chunks, FP8, nothing recomputed."""
    job = Job(model("llama-3-70b"), device("H100"), 64, 8192, 256, precision="fp8")
    layout = Layout(tensor=4, pipeline=8, chunks=5, data=2, schedule="interleaved")
    assert predict(job, layout).fits(job)
