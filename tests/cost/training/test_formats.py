"""Narrow products, frozen weights, linear attention, exchanges and power: closed forms and directions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.model import Linear
from poise.cost.training import Job, Layout, predict, shape
from poise.cost.training.figures import Figures
from poise.cost.training.flops import model_flops
from poise.cost.training.kernels import Kernels, narrower, slower
from poise.cost.training.network import Network

USE = Figures()
GPT = shape(16, 4096, 32)


def test_a_narrow_product_is_a_wide_one_at_its_peak_and_a_cast() -> None:
    wide, narrow = (Kernels(device("H100"), each, "flash", USE) for each in ("bf16", "fp8"))
    m, n, k = 4096, 8192, 8192
    half = wide.product(m, n, k) * USE.gemm_fp8 * 989 / 1979
    assert narrow.product(m, n, k, cast=False) == pytest.approx(half)
    assert narrow.product(m, n, k) == pytest.approx(half + narrow.stream(USE.casts * m * k))
    assert narrow.wide(m, n, k) == wide.wide(m, n, k), "the head stays in 16 bits"


def test_a_device_without_narrow_units_computes_in_16_bits() -> None:
    one, two = (Kernels(device("A100"), each, "flash", USE) for each in ("bf16", "fp8"))
    assert one.product(64, 64, 64) == two.product(64, 64, 64)


def test_ways_to_scale_multiply_the_same_figure() -> None:
    assert narrower("fp8", USE) == USE.gemm_fp8
    for name, factor in (("fp8_rows", USE.rows), ("mxfp8", USE.blocks_32), ("fp8_block", USE.blocks_128)):
        assert narrower(name, USE) == pytest.approx(USE.gemm_fp8 * factor)
    assert narrower("nvfp4", USE) < narrower("fp8", USE)


def test_less_power_for_the_same_peak_is_slower() -> None:
    usual = device("H100")
    assert slower(usual, USE) == pytest.approx(USE.gemm_new)
    capped = replace(usual, tdp_w=350.0)
    assert slower(capped, USE) == pytest.approx(USE.gemm_new * 2**USE.power)
    assert slower(replace(usual, tdp_w=0.0), USE) == USE.gemm_new, "power that is not known changes nothing"


def test_each_kind_of_device_has_its_own_figure() -> None:
    named = {"A100": USE.gemm, "B200": USE.gemm_blackwell, "MI300X": USE.gemm_amd, "MI355X": USE.gemm_amd_new}
    for name, figure in {**named, "TPU-v5p": USE.gemm_tpu}.items():
        assert slower(device(name), USE) == pytest.approx(figure)


def test_frozen_weights_have_no_gradients_and_no_states() -> None:
    job = Job(GPT, device("H200"), 8, 4096, 8)
    whole, tuned = (predict(replace(job, adapters=rank), Layout(data=8)) for rank in (0, 16))
    assert tuned.classes["gradients"] == tuned.classes["optimizer"] == 0
    assert whole.classes["optimizer"] > 0
    assert tuned.classes["activations"] < whole.classes["activations"]
    assert 0.6 < tuned.seconds / whole.seconds < 0.9, "a third of the products is gone"


def test_linear_attention_is_counted_by_its_own_weights() -> None:
    plain = shape(8, 2048, 16, kv_heads=4, ffn=8192, gated=True)
    mixer = Linear(key_heads=16, value_heads=16, key_dim=128, value_dim=128)
    half = replace(plain, linear_layers=4, linear=mixer)
    change = 4 * (mixer.parameters(2048) - plain.attention_parameters)
    scores = 4 * 2 * plain.heads * plain.head_dim * 4096
    assert model_flops(half, 4096) - model_flops(plain, 4096) == pytest.approx(6 * change - 6 * scores)
    long = Job(half, device("H100"), 1, 65536, 1), Job(plain, device("H100"), 1, 65536, 1)
    assert predict(long[0], Layout()).seconds < predict(long[1], Layout()).seconds


def test_tokens_sent_once_cross_less_often() -> None:
    """Of eight ranks a token with eight experts meets 8(1 − (7/8)^8) = 5.25."""
    network = Network(Job(GPT, device("H100"), 64, 4096, 64), replace(USE, far_s=0.0))
    each, once = (float(network.exchange(1e9, 8, 1, 8, once=flag)) for flag in (False, True))
    fixed = float(network.exchange(0.0, 8, 1, 8))
    assert (once - fixed) / (each - fixed) == pytest.approx(1 - (7 / 8) ** 8)
    one = [float(network.exchange(1e9, 8, 1, 1, once=flag)) for flag in (False, True)]
    assert one[0] == pytest.approx(one[1]), "one copy is sent once either way"
    far = [float(network.exchange(1e9, 64, 1, 8, once=flag)) for flag in (False, True)]
    assert far[1] < far[0]


def test_an_exchange_beside_compute_is_hidden() -> None:
    job = Job(model("qwen3-30b-a3b"), device("H100"), 64, 4096, 64)
    layout = Layout(data=64, expert=64)
    alone, paired = (predict(replace(job, paired=flag), layout) for flag in (False, True))
    assert paired.parts["exposed_in_layers"] < alone.parts["exposed_in_layers"]
    assert paired.parts["compute"] == pytest.approx(alone.parts["compute"], rel=0.05)


def test_skew_and_chunked_losses() -> None:
    job = Job(model("qwen3-30b-a3b"), device("H100"), 64, 4096, 64)
    layout = Layout(data=64, expert=8)
    assert predict(replace(job, skew=1.5), layout).seconds > predict(job, layout).seconds
    assert predict(replace(job, chunked=True), layout).classes["logits"] == 0


def test_every_chunk_costs_its_messages() -> None:
    """Beyond the shorter ramp more chunks take longer, so that they do not tie."""
    job = Job(shape(32, 4096, 32), device("H100"), 8, 4096, 512)
    layout = Layout(pipeline=8, chunks=2, schedule="interleaved")
    two, four = (predict(job, replace(layout, chunks=count)).parts["messages"] for count in (2, 4))
    assert four > two
