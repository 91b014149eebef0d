"""What must hold of any roofline: order, covers, integers, repeatability, and errors that name the cure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.model import Model
from poise.core.spec import Pool
from poise.core.units import ps
from poise.cost import Roofline
from poise.cost.coefficients import derive

from .pools import DEEPSEEK_V3, GEMMA, H100, HYBRID, LLAMA_8B, PCIE, REAL, cost, models, more_work, pools, shares

tokens = st.integers(1, 5000)
contexts = st.integers(0, 20_000)
more = st.integers(1, 500)


@given(pools(), st.integers(0, 300), tokens, contexts, contexts, more, shares)
@settings(max_examples=150, deadline=None)
def test_more_work_never_costs_less(
    pool: Pool, decodes: int, new: int, earlier: int, context: int, extra: int, share: float
) -> None:
    estimator = Roofline().build(pool)
    here = cost(estimator, StepShape(decodes, (Chunk(new, earlier),), share), context)
    for shape, at in more_work(decodes, new, earlier, context, extra, share):
        assert cost(estimator, shape, at) >= here
    assert here >= cost(estimator, StepShape(decodes, (), share), context)
    wider = cost(estimator, StepShape(decodes + extra, (Chunk(new, earlier),), share), context)
    assert wider >= here - (decodes + extra) * context  # decodes spread over ranks, and each slope is rounded by itself


@given(pools(), st.integers(1, 300), tokens, contexts, contexts)
@settings(deadline=None)
def test_a_smaller_share_is_never_faster(pool: Pool, decodes: int, new: int, earlier: int, context: int) -> None:
    estimator = Roofline().build(pool)
    times = [
        cost(estimator, StepShape(decodes, (Chunk(new, earlier),), share), context)
        for share in (0.1, 0.25, 0.5, 0.75, 1.0)
    ]
    assert times == sorted(times, reverse=True)


@given(pools(), st.sampled_from((2, 4)))
@settings(deadline=None)
def test_tensor_parallelism_never_lengthens_a_devices_gemms(pool: Pool, times: int) -> None:
    narrow, wide = (derive(replace(pool, tensor=pool.tensor * n), Roofline(), 1.0) for n in (1, times))
    for name in ("weights", "token", "expert_weights", "expert_token", "head_weights", "head_token", "kv", "pair"):
        assert getattr(wide, name) <= getattr(narrow, name) * (1 + 1e-12)


@given(pools(), st.integers(0, 40), tokens, contexts, st.sets(st.integers(1, 5), max_size=4), shares)
@settings(deadline=None)
def test_a_cover_of_the_layers_costs_the_whole_chunk_and_what_is_read_again(
    pool: Pool, decodes: int, new: int, earlier: int, cuts: set[int], share: float
) -> None:
    estimator, layers = Roofline().build(pool), pool.model.layers
    edges = sorted({0, layers} | {cut for cut in cuts if cut < layers})
    parts = [
        estimator.step(StepShape(decodes, (Chunk(new, earlier, low, high),), share)).base
        for low, high in pairwise(edges)
    ]
    whole = estimator.step(StepShape(decodes, (Chunk(new, earlier),), share)).base
    use = Roofline()
    sequences = ceil((decodes + 1) / pool.data) - ceil(decodes / pool.data)  # of the fullest rank, for the chunk
    sequence_s = use.cpu_sequence_s * sequences
    host = ps(sequence_s) if decodes else ps(use.cpu_step_s + sequence_s)
    again = estimator.step(StepShape(decodes, (), share)).base + host  # decodes pass all layers in every step
    assert sum(parts) == pytest.approx(whole + (len(parts) - 1) * again, rel=1e-9, abs=2 * len(parts))


@given(models(), st.integers(0, 9), st.lists(st.tuples(tokens, st.integers(0, 5), st.integers(1, 6)), min_size=1))
@settings(deadline=None)
def test_layer_ranges_equal_a_walk_through_the_layers(
    model: Model, decodes: int, ranges: list[tuple[int, int, int]]
) -> None:
    model = replace(model, window_layers=0, linear_layers=model.layers)  # no attention: only what tokens share is left
    layers, k = model.layers, derive(Pool(model, H100), Roofline(), 1.0)
    chunks = [Chunk(new, 0, low % layers, min(layers, low % layers + span)) for new, low, span in ranges]
    walked = k.step + k.sequence * (decodes + len(chunks)) + k.state * decodes
    for layer in range(layers):
        passing = decodes + sum(chunk.tokens for chunk in chunks if chunk.first_layer <= layer < chunk.last_layer)
        walked += k.layer(passing) if passing else 0.0
    scanned = [chunk.tokens * (chunk.last_layer - chunk.first_layer) / layers for chunk in chunks]
    walked += max(k.scan * max(scanned), k.scanned * sum(scanned))
    sampled = decodes + sum(chunk.last_layer == layers for chunk in chunks)
    walked += k.last(sampled) if sampled else 0.0
    assert Roofline().build(Pool(model, H100)).step(StepShape(decodes, tuple(chunks))).base == pytest.approx(walked)


def test_a_repeated_decode_shape_is_the_same_piece() -> None:
    estimator: Estimator = Roofline().build(Pool(LLAMA_8B, H100))
    assert estimator.step(StepShape(7)) is estimator.step(StepShape(7))
    assert estimator.step(StepShape(7, (), 0.5)) is not estimator.step(StepShape(7))


@pytest.mark.parametrize("pool", (Pool(LLAMA_8B, H100, data=4), Pool(LLAMA_8B, H100, pipeline=4)), ids=("data", "pipe"))
def test_a_lone_request_reads_its_kv_alone(pool: Pool) -> None:
    alone, spread = Roofline().build(Pool(LLAMA_8B, H100)), Roofline().build(pool)
    assert spread.step(StepShape(1)).per_kv == alone.step(StepShape(1)).per_kv
    assert spread.step(StepShape(8)).per_kv == pytest.approx(alone.step(StepShape(8)).per_kv / 4, abs=1)


def test_an_empty_step_costs_nothing() -> None:
    assert Roofline().build(Pool(LLAMA_8B, H100)).step(StepShape(0)) == Piece(0)


def test_a_share_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"share 1\.5"):
        Roofline().build(Pool(LLAMA_8B, H100)).step(StepShape(1, (), 1.5))


def test_formats_without_a_native_path_compute_in_bf16() -> None:
    native = replace(H100, fp8_flops=0.0)
    token = {
        (weights, device): derive(Pool(LLAMA_8B, device, weights=weights), Roofline(), 1.0).token
        for weights in ("bf16", "fp8", "int4")
        for device in (H100, native)
    }
    assert token["bf16", H100] == token["int4", H100] == token["fp8", native]
    assert token["fp8", H100] < token["bf16", H100]


@pytest.mark.parametrize("model", REAL, ids=lambda model: model.name)
def test_window_is_the_models_where_it_has_window_layers(model: Model) -> None:
    estimator = Roofline().build(Pool(model, H100, tensor=8))
    assert estimator.window == model.window
    assert (estimator.step(StepShape(3)).per_window > 0) == (model is GEMMA)


@given(pools(), st.integers(0, 500), st.integers(0, 500))
@settings(deadline=None)
def test_kv_bytes_cover_all_copies(pool: Pool, some: int, others: int) -> None:
    estimator, model = Roofline().build(pool), pool.model
    assert isinstance(estimator.kv_bytes(some), int)
    assert estimator.kv_bytes(min(some, others)) <= estimator.kv_bytes(max(some, others))
    copies = pool.tensor if model.mla else max(1, pool.tensor / model.kv_heads)
    bits = {"bf16": 16, "fp8": 8}[pool.kv]
    cached = model.kv_bytes(some, bits) - (model.state_bytes if some else 0)
    assert estimator.kv_bytes(some) == pytest.approx(cached * copies + (model.state_bytes if some else 0), abs=copies)


def test_swap_uses_every_devices_pcie() -> None:
    assert Roofline().build(Pool(LLAMA_8B, H100, tensor=4)).swap(256 * 10**9) == ps(1.0)


def test_collectives_that_copy_through_the_host_gain_nothing_by_pcie_5() -> None:
    shape = StepShape(0, (Chunk(2048, 0),))
    peers = replace(PCIE, host_bw=64e9, scaleup_bw=64e9)
    four, five, reached = (
        Roofline().build(Pool(LLAMA_8B, device, tensor=2)).step(shape).base
        for device in (PCIE, replace(PCIE, host_bw=64e9), peers)
    )
    assert reached < five == four


@pytest.mark.parametrize(
    ("pool", "rule"),
    [
        (Pool(DEEPSEEK_V3, H100, tensor=8, expert=3), "pool.expert is 3"),
        (Pool(LLAMA_8B, H100, tensor=0), "pool.tensor is 0"),
        (Pool(LLAMA_8B, H100, pipeline=40), "pool.pipeline is 40"),
        (Pool(LLAMA_8B, replace(PCIE, host_bw=0.0), tensor=2), "states no link that joins 2 devices"),
    ],
)
def test_layouts_that_cannot_be_are_refused_in_one_line(pool: Pool, rule: str) -> None:
    with pytest.raises(ScenarioError, match=rule) as caught:
        Roofline().build(pool)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", ({"gemm_bf16": 0.0}, {"cpu_step_s": -1.0}, {"link": float("nan")}), ids=str)
def test_efficiencies_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=rf"cost\.{next(iter(wrong))} is "):
        Roofline(**wrong)


def test_swap_without_a_stated_link_says_which_field_is_missing() -> None:
    with pytest.raises(ScenarioError, match="host_bw"):
        Roofline().build(Pool(LLAMA_8B, replace(H100, host_bw=0.0))).swap(1)


def test_describe_cites_every_coefficient_and_marks_the_users() -> None:
    result = json.loads(json.dumps(Roofline(gemm_bf16=0.5).build(Pool(DEEPSEEK_V3, H100, tensor=8)).describe()))
    efficiencies = result["efficiencies"]
    assert efficiencies["gemm_bf16"] == {
        "value": 0.5,
        "what": "peak reached by GEMMs of ≥ 10^12 FLOP",
        "source": "given by the user",
    }
    assert all(each["what"] and each["source"] for each in efficiencies.values())
    assert set(efficiencies) == set(Roofline.__dataclass_fields__)


CODE = """
from poise.core.estimate import Chunk, StepShape
from poise.core.experts import ExpertLoad
from poise.core.model import Linear, Mla, Model, Moe
from poise.core.spec import Device, Engine, Lane, Pool
from poise.cost import Roofline, kv_blocks
for pool in {pools!r}:
    estimator = Roofline().build(pool)
    for share in (1.0, 0.3):
        print(estimator.step(StepShape(9, (), share)))
        print(estimator.step(StepShape(5, (Chunk(70, 9), Chunk(8, 0, 2, 5)), share)))
    print(estimator.kv_bytes(777), estimator.swap(12345), kv_blocks(pool), estimator.describe())
"""


def test_two_processes_with_different_hash_seeds_agree() -> None:
    wanted = [
        Pool(DEEPSEEK_V3, H100, tensor=8, data=2, expert=16, weights="fp8"),
        Pool(GEMMA, H100),
        Pool(HYBRID, H100, tensor=4),
    ]
    printed = [
        subprocess.run(
            [sys.executable, "-c", CODE.format(pools=wanted)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != ""
