"""Costs of models whose layers differ: reading of the context by kind, products on a device, and sums of layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import models as built_in
from poise.catalogue.models import model as named
from poise.core.estimate import Chunk, StepShape
from poise.core.layer import Attention, Index, Layer, Linear, Mla, Moe
from poise.core.model import Model
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND
from poise.cost import Measured, Roofline, kv_blocks
from poise.cost.coefficients import Builder, bounded, derive
from poise.cost.layout import products
from poise.cost.memory import footprint
from poise.cost.spans import chunked_pairs, reach

from .pools import GEMMA, H100, HYBRID, LLAMA_8B, cost, models, more_work

USE = Roofline()
LATENT = Mla(128, 16, 32, 48, q_rank=96)
ATTENTIONS = {
    "full": Attention(16, 4, 64),
    "values": Attention(16, 4, 96, value_dim=64),
    "window": Attention(16, 4, 64, window=100),
    "sparse": Attention(16, 16, 48, mla=LATENT, index=Index(8, 64, 70, q_rank=96)),
    "shared": Attention(16, 16, 48, mla=LATENT, index=Index(8, 64, 70, own=False)),
    "pooled": Attention(16, 16, 48, mla=LATENT, index=Index(8, 64, 70, pool=4, q_rank=96)),
    "blocks": Attention(16, 4, 64, index=Index(4, 64, 3, unit=32, local=1, bits=16)),
    "all": Attention(16, 1, 256, same=True, window=100, ratio=8, q_rank=64, o_groups=4, o_rank=32),
    "best": Attention(16, 1, 256, same=True, window=100, ratio=4, index=Index(8, 64, 50, q_rank=64), q_rank=64,
                      o_groups=4, o_rank=32),
}  # fmt: skip


def stacked(*stack: Layer) -> Model:
    """A model of these layers."""
    count = sum(each.count for each in stack)
    moe = next((replace(each.moe, layers=each.count) for each in stack if each.moe), None)
    linear = sum(each.count for each in stack for mixer in each.mixers if isinstance(mixer, Linear))
    return Model(
        "x", count, 1024, 16, 4, 64, 9000, 2048, 50_000, window=100, linear_layers=linear, moe=moe, stack=stack
    )


@st.composite
def stacks(draw: st.DrawFn) -> Model:
    """Any mix of layers: one mixer, two side by side or none, and a dense block, experts or none."""
    linears: list[Attention | Linear] = [
        Linear(4, 4, 32, 32, kind="kda"),
        Linear(2, 8, 64, 32, kind="mamba2"),
        Linear(4, 8, 32, 64),
    ]
    mixers = draw(st.lists(st.sampled_from([*linears, *ATTENTIONS.values()]), max_size=2))
    moe = Moe(8, 2, 256, 1, shared=1, shared_ffn=128, latent=draw(st.sampled_from((0, 256))))
    found = [Layer((draw(st.sampled_from(list(ATTENTIONS.values()))),), 512)]
    found += [Layer((each,), moe=moe, count=2) for each in mixers]
    found += draw(st.sampled_from([[], [Layer((), 1024)], [Layer((), moe=moe)], [Layer(tuple(mixers), 300)]]))
    return stacked(*found)


def slow_decode(attention: Attention, context: int) -> float:
    """Seconds of one decode in one layer on an H100 with a cache of 16 bits, entry by entry."""
    index, entry = attention.index, max(1, attention.ratio)
    width = 1 if attention.same else 2
    cache = attention.mla.kv_rank + attention.mla.rope_dim if attention.mla else (
        attention.kv_heads * attention.head_dim * width if not attention.value_dim
        else attention.kv_heads * (attention.head_dim + attention.value_dim)
    )  # fmt: skip
    one_head = attention.mla is not None or attention.same
    reached, flops_reached = (USE.mla_decode, USE.mla_decode_flops) if one_head else (
        USE.attention_decode_bf16, USE.attention_prefill)  # fmt: skip
    per_key = 2 * attention.heads * (
        2 * attention.mla.kv_rank + attention.mla.rope_dim if attention.mla else attention.head_dim + attention.values
    )  # fmt: skip
    bytes_s, math_s = 2 * cache / (H100.memory_bw * reached), per_key / (H100.bf16_flops * flops_reached)
    keys = [position for position in range(context) if not attention.window or position >= context - attention.window]
    seen = float(len(keys)) if attention.window or not attention.ratio else 0.0
    if attention.ratio:
        seen += min(context / entry, index.tokens) if index else context / entry
    elif index:
        seen = min(context, index.tokens)
    total = seen * max(bytes_s, math_s)
    if index and index.own:
        scored = 2 * index.heads * index.dim / ((H100.fp8_flops if index.bits < 16 else H100.bf16_flops)
                                                * USE.attention_prefill)  # fmt: skip
        key = index.dim * index.bits / 8 / (H100.memory_bw * USE.stream_bf16)
        total += context / entry / index.pool * max(scored, key)
    return total


@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("context", [200, 1000, 20_000])
def test_a_decode_reads_what_its_kind_reads(attention: Attention, context: int) -> None:
    """Contexts beyond the shorter bounds, within which layers of two bounds are counted whole."""
    model = stacked(Layer((attention,), 512, count=3))
    k = derive(Pool(model, H100), USE, 1.0)
    read = k.kv * context + k.window_kv * min(context, reach(model)) + k.state
    assert read == pytest.approx(3 * slow_decode(attention, context) * SECOND, rel=1e-9)


@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
def test_products_of_one_device_are_the_weights(attention: Attention) -> None:
    whole = sum(each.n * each.k for each in products(Pool(LLAMA_8B, H100), attention))
    assert whole == pytest.approx(attention.parameters(LLAMA_8B.hidden), rel=1e-12)
    shared = sum(each.n * each.k for each in products(Pool(LLAMA_8B, H100, tensor=4), attention))
    assert whole / 4 <= shared <= whole


@pytest.mark.parametrize("recipe", [Roofline, Measured])
@pytest.mark.parametrize("model", [LLAMA_8B, GEMMA, HYBRID], ids=lambda model: model.name)
def test_a_list_of_equal_layers_costs_the_uniform_model(model: Model, recipe: type[Roofline]) -> None:
    listed = replace(model, stack=model.kinds[::-1])
    for shape in (StepShape(7), StepShape(3, (Chunk(500, 3000), Chunk(20, 0)))):
        one, other = (recipe().build(Pool(each, H100, tensor=4)).step(shape) for each in (model, listed))
        assert one == other
    assert kv_blocks(Pool(model, H100, tensor=4)) == kv_blocks(Pool(listed, H100, tensor=4))


@pytest.mark.parametrize("recipe", [Roofline, Measured])
@given(
    stacks(),
    st.integers(0, 40),
    st.integers(1, 3000),
    st.integers(0, 9000),
    st.integers(300, 9000),
    st.integers(1, 300),
)
@settings(max_examples=25, deadline=None)
def test_more_work_never_costs_less(
    recipe: type[Roofline], model: Model, decodes: int, new: int, earlier: int, context: int, extra: int
) -> None:
    estimator = recipe().build(Pool(model, H100, tensor=2))
    here = cost(estimator, StepShape(decodes, (Chunk(new, earlier),), 1.0), context)
    for shape, at in more_work(decodes, new, earlier, context, extra, 1.0):
        assert cost(estimator, shape, at) >= here * (1 - 1e-9)


@given(stacks(), st.sampled_from((1, 2, 4)), st.integers(1, 20_000))
@settings(deadline=None)
def test_caches_of_all_devices_are_copies_of_the_models(model: Model, tensor: int, tokens: int) -> None:
    pool = Pool(model, H100, tensor=tensor)
    once = model.kv_bytes(tokens, BITS["bf16"]) - model.state_bytes
    kept = Roofline().build(pool).kv_bytes(tokens) - model.state_bytes
    assert once * (1 - 1e-9) <= kept <= once * tensor + 1
    growing = footprint(pool).block / pool.engine.block_tokens
    assert growing * tensor >= model.kv_bytes_per_token(16) * (1 - 1e-9)


@given(models())
@settings(deadline=None)
def test_the_longest_bound_of_a_uniform_model_is_its_window(model: Model) -> None:
    assert reach(model) == (model.window if model.window_layers else 0)


@pytest.mark.parametrize("model", [each for each in built_in() if each.stack], ids=lambda model: model.name)
def test_every_list_is_priced(model: Model) -> None:
    """On eight devices with tables and without: decodes grow with context, prompts with their length."""
    for recipe in (Roofline, Measured):
        estimator = recipe().build(Pool(model, H100, tensor=8))
        short, long = (cost(estimator, StepShape(8), context) for context in (500, 50_000))
        assert 0 < short < long
        first, later = (estimator.step(StepShape(0, (Chunk(2000, context),))).base for context in (0, 20_000))
        assert 0 < first < later


@given(st.integers(0, 40), st.integers(0, 60), st.integers(1, 20))
def test_a_query_in_chunks_sees_its_chunk_up_to_itself(tokens: int, context: int, chunk: int) -> None:
    positions = range(context, context + tokens)
    seen = [set(range(position // chunk * chunk, position + 1)) for position in positions]
    assert chunked_pairs(tokens, context, chunk) == sum(map(len, seen))
    if tokens:
        assert bounded(tokens, context, chunk, True) == (sum(map(len, seen)), len(set().union(*seen)))


@pytest.mark.parametrize("recipe", [Roofline(), Measured()])
def test_prompts_in_chunks_take_less_than_in_windows(recipe: Roofline | Measured) -> None:
    """Beyond the first chunk a query sees (c + 1) / 2 keys in the mean, in a window c; short prompts see the same."""
    chunked = named("llama-4-scout")
    assert chunked.chunked
    costs = {}
    for tokens in (4096, 8192 * 8):
        for each in (chunked, replace(chunked, chunked=False)):
            estimator = recipe.build(Pool(each, H100, tensor=8))
            costs[tokens, each.chunked] = estimator.step(StepShape(0, (Chunk(tokens, 0),))).base
    assert costs[4096, True] == pytest.approx(costs[4096, False], rel=1e-9)
    assert costs[8192 * 8, True] < costs[8192 * 8, False]


@pytest.mark.parametrize("expert", [1, 4])
def test_experts_in_a_latent_width_exchange_the_latent(expert: int) -> None:
    """A token is projected before it is sent (Nemotron 3): bytes are those of the latent."""
    model = named("NVIDIA-Nemotron-3-Super-120B-A12B-BF16")
    assert model.moe is not None
    whole = replace(model.moe, latent=0)
    sent = []
    for each in (model, replace(model, moe=whole)):
        pool = Pool(each, H100, data=4, expert=expert)
        sent.append(Builder(pool, USE, 1.0).exchange().per_byte_s)
    assert sent[0] / sent[1] == pytest.approx(model.moe.latent / model.hidden)
