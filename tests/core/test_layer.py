"""Kinds of layers: weights counted tensor by tensor, and what each keeps of its context."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.layer import Attention, Index, Layer, Linear, Mla, Moe, resized
from poise.core.model import Model

HIDDEN = 24
widths = st.integers(1, 12)


def kda(linear: Linear) -> list[tuple[int, ...]]:
    """The tensors of Kimi Delta Attention."""
    wide, heads = linear.value_heads * linear.value_dim, linear.value_heads
    gate = [(wide, HIDDEN)] if linear.full_gate else [(linear.value_dim, HIDDEN), (wide, linear.value_dim)]
    decay = [(linear.key_dim, HIDDEN), (wide, linear.key_dim), (heads,), (wide,)]
    inputs = [(wide, HIDDEN), (wide, linear.conv)] * 3
    return [*inputs, *decay, *gate, (heads, HIDDEN), (linear.value_dim,), (HIDDEN, wide)]


def mamba2(linear: Linear) -> list[tuple[int, ...]]:
    """The tensors of a Mamba-2 layer: gate, inputs, B, C and steps; convolution with bias; A, D and step biases."""
    inner, groups = linear.value_heads * linear.value_dim, linear.key_heads * linear.key_dim
    channels = inner + 2 * groups
    inputs = [(inner, HIDDEN), (channels, HIDDEN), (linear.value_heads, HIDDEN)]
    return [*inputs, (channels, linear.conv), (channels,), *[(linear.value_heads,)] * 3, (inner,), (HIDDEN, inner)]


def mamba1(linear: Linear) -> list[tuple[int, ...]]:
    """The tensors of a Mamba layer with a step rank of a sixteenth of the width."""
    inner, state, rank = linear.value_heads, linear.key_dim, 2
    convolution = [(inner, linear.conv), (inner,)]
    steps = [(rank + 2 * state, inner), (inner, rank), (inner,)]
    return [(2 * inner, HIDDEN), *convolution, *steps, (inner, state), (inner,), (HIDDEN, inner)]


@given(widths, widths, widths, st.integers(1, 4), st.booleans())
def test_recurrent_weights_are_counted_tensor_by_tensor(
    heads: int, dim: int, other: int, conv: int, full: bool
) -> None:
    made = Linear(heads, heads, dim, dim, conv, "kda", full)
    assert made.parameters(HIDDEN) == sum(map(prod, kda(made)))
    made = Linear(other, heads, dim, other, conv, "mamba2")
    assert made.parameters(HIDDEN) == sum(map(prod, mamba2(made)))
    made = Linear(0, heads, dim, 1, conv, "mamba1")
    assert made.parameters(HIDDEN) == sum(map(prod, mamba1(made)))


def test_the_tensors_of_deepseek_v4s_attentions() -> None:
    index = Index(6, 5, 9, q_rank=7)
    made = Attention(4, 1, 8, ratio=4, window=16, index=index, same=True, q_rank=7, o_groups=2, o_rank=3)
    queries = [(7, HIDDEN), (4 * 8, 7)]
    outputs = [(2 * 3, 2 * 8), (HIDDEN, 2 * 3)]  # each group of two heads has a projection of its own
    entries = [(2 * 8, HIDDEN)] * 2 + [(2 * 5, HIDDEN)] * 2
    chosen = [(6 * 5, 7), (5, HIDDEN), (6, HIDDEN)]
    tensors = [*queries, (8, HIDDEN), *outputs, *entries, *chosen]
    assert made.parameters(HIDDEN) == sum(map(prod, tensors))
    assert replace(made, index=replace(index, own=False)).parameters(HIDDEN) == sum(
        map(prod, [*queries, (8, HIDDEN), *outputs, *entries[:2]])
    )


@pytest.mark.parametrize(
    ("attention", "kept"),
    [
        (Attention(4, 2, 8), lambda n: n * 32),
        (Attention(4, 2, 8, value_dim=4), lambda n: n * 24),
        (Attention(4, 2, 8, same=True), lambda n: n * 16),
        (Attention(4, 2, 8, one_projection=True), lambda n: n * 32),
        (Attention(4, 2, 8, window=10), lambda n: min(n, 10) * 32),
        (Attention(4, 2, 8, window=10, chunked=True), lambda n: min(n, 10) * 32),
        (Attention(4, 2, 8, index=Index(1, 8, 3)), lambda n: n * 32 + n * 8.25 / 2),
        (Attention(4, 2, 8, index=Index(1, 8, 3, pool=4)), lambda n: n * 32 + n * 8.25 / 8),
        (Attention(4, 1, 8, same=True, window=10, ratio=5), lambda n: (min(n, 10) + n // 5) * 8),
        (Attention(4, 4, 8, mla=Mla(16, 4, 8, 8)), lambda n: n * 20),
    ],
)
@pytest.mark.parametrize("tokens", [1, 9, 10, 11, 1000])
def test_what_a_layer_keeps(attention: Attention, kept: object, tokens: int) -> None:
    """In values of 16 bits; index keys have 8.25 bits a value."""
    assert callable(kept)
    assert stacked(Layer((attention,), 8)).kv_bytes(tokens, 16) == pytest.approx(2 * kept(tokens), abs=1)


def stacked(*stack: Layer) -> Model:
    """A model of these layers."""
    return Model("x", sum(each.count for each in stack), HIDDEN, 4, 2, 8, 100, 8, 4096, stack=stack)


@given(st.permutations(range(4)), st.integers(1, 500))
def test_a_model_is_the_sum_of_its_layers(order: list[int], tokens: int) -> None:
    moe = Moe(8, 2, 16, 1, shared=1, shared_ffn=8, latent=6)
    layers = [
        Layer((Attention(4, 2, 8, window=10),), 8, count=2),
        Layer((), moe=moe, count=3),
        Layer((Linear(2, 2, 8, 8, kind="kda"), Attention(2, 2, 8))),
        Layer((), 40),
    ]
    whole, alone = stacked(*[layers[at] for at in order]), [stacked(each) for each in layers]
    around = 2 * 100 * HIDDEN + HIDDEN
    assert whole.parameters - around == sum(each.parameters - around for each in alone)
    assert whole.kv_bytes(tokens, 16) == sum(each.kv_bytes(tokens, 16) for each in alone)
    routed, shared = 3 * 8 * 3 * 6 * 16, 3 * HIDDEN * (3 * 8 + 8 + 2 * 6)
    assert (whole.parts.routed, whole.parts.shared) == (routed, shared)
    assert whole.parameters - whole.active_parameters == routed * 6 // 8
    assert (whole.full_layers, whole.dense_layers, whole.attending) == (1, 3, 3)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 200))
def test_a_resized_list_keeps_its_mix(counts: list[int], layers: int) -> None:
    stack = tuple(Layer((Attention(4, 2, 8),), at + 1, count=count) for at, count in enumerate(counts))
    made, whole = resized(stack, layers), sum(counts)
    assert sum(each.count for each in made) == layers
    assert resized(stack, 3 * whole) == tuple(replace(each, count=3 * each.count) for each in stack)
    for each in made:
        assert abs(each.count - counts[each.ffn - 1] * layers / whole) < 1
