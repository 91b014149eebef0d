"""The shape of a model: its weights counted tensor by tensor, and the laws of its KV cache."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.model import Linear, Mla, Model, Moe

widths = st.integers(1, 48)
bits = st.sampled_from([4.25, 4.5, 8.0, 16.0, 32.0])


@st.composite
def shapes(draw: st.DrawFn) -> Model:
    """Any mixture of full, window and linear layers, dense or with experts, with plain or latent attention."""
    layers = draw(st.integers(1, 6))
    linear_layers = draw(st.integers(0, layers))
    window_layers = draw(st.integers(0, layers - linear_layers))
    moe_layers = draw(st.integers(0, layers))
    experts = draw(st.integers(1, 8))
    moe = Moe(experts, draw(st.integers(1, experts)), draw(widths), moe_layers, draw(st.integers(0, 2)), draw(widths))
    mla = Mla(draw(widths), draw(widths), draw(widths), draw(widths), draw(st.sampled_from([0, 7])))
    linear = Linear(draw(widths), draw(widths), draw(widths), draw(widths), draw(st.integers(1, 4)))
    return Model(
        name="any",
        layers=layers,
        hidden=draw(widths),
        heads=draw(widths),
        kv_heads=draw(widths),
        head_dim=draw(widths),
        vocab=draw(widths),
        ffn=draw(widths),
        max_context=4096,
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        window=draw(st.integers(1, 64)) if window_layers else 0,
        window_layers=window_layers,
        linear_layers=linear_layers,
        mla=draw(st.sampled_from([None, mla])),
        moe=moe if moe_layers else None,
        linear=linear if linear_layers else None,
        extra_parameters=draw(st.integers(0, 99)),
    )


def mixer_tensors(model: Model) -> list[tuple[int, ...]]:
    """The tensors of one attending layer, as a checkpoint lists them."""
    hidden, heads = model.hidden, model.heads
    if model.mla is None:
        query, key = heads * model.head_dim, model.kv_heads * model.head_dim
        return [(query, hidden), (key, hidden), (key, hidden), (hidden, query)]
    mla = model.mla
    query = heads * (mla.nope_dim + mla.rope_dim)
    queries = [(mla.q_rank, hidden), (query, mla.q_rank)] if mla.q_rank else [(query, hidden)]
    up = (heads * (mla.nope_dim + mla.value_dim), mla.kv_rank)
    return [*queries, (mla.kv_rank + mla.rope_dim, hidden), up, (hidden, heads * mla.value_dim)]


def linear_tensors(model: Model, linear: Linear) -> list[tuple[int, ...]]:
    """The tensors of one gated linear-attention layer."""
    keys, values = linear.key_heads * linear.key_dim, linear.value_heads * linear.value_dim
    inputs = [(keys, model.hidden), (keys, model.hidden), (values, model.hidden), (values, model.hidden)]
    decays = [(linear.value_heads, model.hidden)] * 2 + [(linear.value_heads,)] * 2
    return [*inputs, *decays, (2 * keys + values, linear.conv), (linear.value_dim,), (model.hidden, values)]


def tensors(model: Model) -> list[tuple[int, ...]]:
    """Every tensor of the model but the extras."""
    found: list[tuple[int, ...]] = [(model.vocab, model.hidden)] * (1 if model.tied else 2) + [(model.hidden,)]
    matrices = 3 if model.gated else 2
    for layer in range(model.layers):
        if model.linear is not None and layer < model.linear_layers:
            found += linear_tensors(model, model.linear)
        else:
            found += mixer_tensors(model)
        found += [(model.hidden,)] * 2
        moe = model.moe
        if moe is not None and layer < moe.layers:
            found += [(moe.ffn, model.hidden)] * matrices * moe.experts
            found += [(moe.shared_ffn, model.hidden)] * matrices * moe.shared + [(moe.experts, model.hidden)]
        else:
            found += [(model.ffn, model.hidden)] * matrices
    return found


@given(shapes())
def test_the_formula_counts_every_tensor(model: Model) -> None:
    assert model.parameters == sum(map(prod, tensors(model))) + model.extra_parameters


@given(shapes())
def test_a_token_passes_all_weights_but_idle_experts(model: Model) -> None:
    if model.moe is None:
        assert model.active_parameters == model.parameters
        return
    busy = replace(model, moe=replace(model.moe, active=model.moe.experts))
    assert busy.active_parameters == busy.parameters
    alone = replace(model, moe=replace(model.moe, experts=model.moe.active))
    routers = model.moe.layers * model.hidden * (model.moe.experts - model.moe.active)
    assert model.active_parameters == alone.parameters + routers


@given(shapes(), bits)
def test_weights_in_16_bits_are_two_bytes_each_and_fewer_bits_are_never_more(model: Model, width: float) -> None:
    assert model.weight_bytes(16) == 2 * model.parameters
    assert model.weight_bytes(width) >= model.matrix_parameters * width / 8
    if width <= 16:
        rest = model.parameters - model.matrix_parameters
        assert model.weight_bytes(width) - 2 * rest == pytest.approx(model.matrix_parameters * width / 8, abs=1)


@given(shapes(), st.integers(1, 200), bits)
def test_one_more_token_adds_the_growing_layers_and_the_windows_that_are_not_full(
    model: Model, tokens: int, width: float
) -> None:
    more = model.kv_bytes(tokens + 1, width) - model.kv_bytes(tokens, width)
    per_layer = model.kv_values_per_layer * width / 8
    open_windows = model.window_layers if tokens < model.window else 0
    assert more == pytest.approx(model.kv_bytes_per_token(width) + open_windows * per_layer, abs=1)


@given(shapes(), bits)
def test_no_tokens_keep_nothing_and_the_first_brings_the_state(model: Model, width: float) -> None:
    assert model.kv_bytes(0, width) == 0
    attending = model.layers - model.linear_layers
    assert model.kv_bytes(1, width) - model.state_bytes == pytest.approx(
        attending * model.kv_values_per_layer * width / 8, abs=1
    )


@given(shapes(), st.integers(1, 10_000), bits)
def test_a_window_never_keeps_more_than_full_attention(model: Model, tokens: int, width: float) -> None:
    full = replace(model, window=0, window_layers=0)
    assert model.kv_bytes(tokens, width) <= full.kv_bytes(tokens, width)


def test_a_linear_layer_of_unknown_make_counts_as_attention_with_square_states() -> None:
    model = Model("x", 3, 8, 2, 1, 4, 10, 16, 64, linear_layers=2)
    assert model.parameters == replace(model, linear_layers=0).parameters
    assert model.state_bytes == 2 * 2 * 4 * 4 * 4
