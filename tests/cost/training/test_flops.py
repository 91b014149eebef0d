"""FLOP of training against the closed forms of papers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue.models import model
from poise.cost.training import shape
from poise.cost.training.flops import hardware_flops, model_flops, narayanan


@given(
    layers=st.integers(1, 128), heads=st.integers(1, 160), sequence=st.integers(1, 8192), vocab=st.integers(1, 200_000)
)
def test_gpt_with_all_layers_recomputed_is_equation_3(layers: int, heads: int, sequence: int, vocab: int) -> None:
    gpt = shape(layers, 64 * heads, heads, vocab=vocab)
    ours = 7 * sequence * hardware_flops(gpt, sequence, "full")
    assert ours == pytest.approx(narayanan(7, sequence, layers, 64 * heads, vocab), rel=1e-12)


def test_published_steps_of_megatron() -> None:
    """Narayanan 2021, 5.1: a trillion weights, 3,072 devices at 163 TFLOP/s train 450 billion tokens in 84 days."""
    flops = narayanan(3072, 2048, 128, 25600, 51200) * 450e9 / (3072 * 2048)
    assert flops / (3072 * 163e12) / 86400 == pytest.approx(84, rel=0.03)


def test_a_token_costs_six_flop_a_weight_and_what_attention_adds() -> None:
    llama = model("llama-3-8b")
    products = llama.parameters - llama.vocab * llama.hidden
    attention = 12 * llama.layers * llama.hidden * 8192
    assert model_flops(llama, 8192) == pytest.approx(6 * products + attention, rel=1e-3)


def test_idle_experts_cost_nothing() -> None:
    mixtral = model("mixtral-8x7b")
    assert model_flops(mixtral, 1) == pytest.approx(6 * (mixtral.active_parameters - 32000 * 4096), rel=1e-3)
