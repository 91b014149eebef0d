"""What must hold of measured costs: bounds, order, the estimator's contract, standing of answers, and provenance."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Engine, Pool
from poise.cost import Measured, Roofline
from poise.cost.curves import Curves
from poise.cost.efficiency import Efficiencies
from poise.cost.formats import framework
from poise.cost.gather import SKEW
from poise.cost.ramp import Tried
from poise.cost.tables import SHIPPED, SLOW, Curve, distance, load_tables
from tests.depth import examples

from .pools import (
    DEEPSEEK_V3,
    GEMMA,
    H100,
    HYBRID,
    LLAMA_8B,
    LLAMA_70B,
    PCIE,
    REAL,
    cost,
    models,
    more_work,
    pools,
    shares,
)

TABLES = load_tables()
KNOWN = TABLES.devices["H100-SXM-80GB"]
tokens = st.integers(1, 5000)
contexts = st.integers(0, 20_000)
more = st.integers(1, 500)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """A shipped table at the figures of its own or of another device."""
    table = draw(st.sampled_from(TABLES.tables))
    device = draw(st.sampled_from((TABLES.devices[table.device], PCIE)))
    found = TABLES.curve(table.kind, device, table.format, table.framework, table.kernel)
    assert found is not None
    return found


def places(curve: Curve) -> st.SearchStrategy[list[float]]:
    return st.tuples(*(st.floats(axis.low - 2, axis.high + 6).map(lambda x: 2.0**x) for axis in curve.table.axes)).map(
        list
    )


@given(st.data(), curves())
@settings(max_examples=200, deadline=None)
def test_no_operator_is_faster_than_the_datasheet_or_falls_along_its_axes(data: st.DataObject, curve: Curve) -> None:
    at = data.draw(places(curve))
    here = curve.seconds(*at)
    assert here >= max(curve.table.operator.least(tuple(at), curve.table.format, curve.figures)) > -1
    for axis, rises in enumerate(curve.table.operator.rising):
        if rises:
            beside = list(at)
            beside[axis] *= data.draw(st.floats(1, 16))
            assert curve.seconds(*beside) >= here * (1 - 1e-9)


@given(st.data(), curves())
@settings(max_examples=50, deadline=None)
def test_a_slice_answers_as_its_curve(data: st.DataObject, curve: Curve) -> None:
    at = data.draw(places(curve))
    cut = data.draw(st.integers(1, len(at)))
    assert curve.slice(cut, *at[cut:]).seconds(*at[:cut]) == pytest.approx(curve.seconds(*at))


@pytest.mark.deep
@given(pools(), st.integers(0, 300), tokens, contexts, contexts, more, shares)
@settings(max_examples=examples(60), deadline=None)
def test_more_work_never_costs_less(
    pool: Pool, decodes: int, new: int, earlier: int, context: int, extra: int, share: float
) -> None:
    estimator = Measured().build(pool)
    here = cost(estimator, StepShape(decodes, (Chunk(new, earlier),), share), context)
    for shape, at in more_work(decodes, new, earlier, context, extra, share):
        assert cost(estimator, shape, at) >= here - 1
    assert here >= cost(estimator, StepShape(decodes, (), share), context) - 1
    wider = cost(estimator, StepShape(decodes + extra, (Chunk(new, earlier),), share), context)
    assert wider >= here - (decodes + extra) * context - 1  # each slope is rounded by itself


@pytest.mark.deep
@given(pools(), st.integers(1, 300), tokens, contexts, contexts)
@settings(max_examples=examples(30), deadline=None)
def test_a_smaller_share_is_never_faster(pool: Pool, decodes: int, new: int, earlier: int, context: int) -> None:
    estimator = Measured().build(pool)
    times = [cost(estimator, StepShape(decodes, (Chunk(new, earlier),), share), context) for share in (0.2, 0.6, 1.0)]
    assert times[0] >= times[1] * 0.999 >= times[2] * 0.998


@given(models(), st.integers(1, 300), tokens, contexts, contexts)
@settings(max_examples=40, deadline=None)
def test_a_step_is_never_faster_than_a_perfect_device(
    model: object, decodes: int, new: int, earlier: int, context: int
) -> None:
    plain = replace(model, moe=None, linear_layers=0, linear=None)  # type: ignore[type-var]
    pool = Pool(replace(plain, window_layers=min(plain.window_layers, plain.layers)), H100)  # type: ignore[attr-defined]
    perfect = Roofline(**{f.name: 0.0 if f.name.endswith("_s") else 1.0 for f in fields(Efficiencies)})
    shape = StepShape(decodes, (Chunk(new, earlier),))
    assert cost(Measured().build(pool), shape, context) >= cost(perfect.build(pool), shape, context) * (1 - 1e-9)


@pytest.mark.parametrize("model", REAL, ids=lambda model: model.name)
def test_a_cover_of_the_layers_costs_the_whole_chunk_and_what_is_read_again(model: object) -> None:
    estimator = Measured().build(Pool(model, H100, tensor=8))  # type: ignore[arg-type]
    layers = model.layers  # type: ignore[attr-defined]
    for decodes in (0, 5):
        edges = (0, 1, layers // 2, layers)
        parts = [estimator.step(StepShape(decodes, (Chunk(300, 50, *span),))).base for span in pairwise(edges)]
        whole = estimator.step(StepShape(decodes, (Chunk(300, 50),))).base
        use = Efficiencies()
        host = round((use.cpu_step_s * (decodes == 0) + use.cpu_sequence_s) * 1e12)
        again = estimator.step(StepShape(decodes)).base + host
        if decodes == 0:
            assert sum(parts) == pytest.approx(whole + (len(parts) - 1) * again, rel=1e-9, abs=9)
        else:  # a stretch that only decodes pass is charged for its own tokens, so shared products save something
            assert sum(parts) > whole


@pytest.mark.parametrize("model", REAL, ids=lambda model: model.name)
def test_it_keeps_the_estimators_contract(model: object) -> None:
    pool = Pool(model, H100, tensor=8)  # type: ignore[arg-type]
    estimator: Estimator = Measured().build(pool)
    assert estimator.step(StepShape(0)) == Piece(0)
    assert estimator.step(StepShape(7)) is estimator.step(StepShape(7))
    assert (estimator.step(StepShape(7)).per_window > 0) == (model is GEMMA)
    assert all(isinstance(each, int) for each in estimator.step(StepShape(7, (Chunk(9, 3),)))[:4])
    assert estimator.kv_bytes(100) == Roofline().build(pool).kv_bytes(100)
    with pytest.raises(ValueError, match=r"share 1\.5"):
        estimator.step(StepShape(1, (), 1.5))


def test_an_answer_says_how_it_stands() -> None:
    gemm = TABLES.curve("gemm", KNOWN, "bf16", "vllm")
    assert gemm is not None
    assert gemm.answer(64, 4096, 4096).how == "measured"
    assert gemm.answer(1 << 20, 1 << 18, 4096).how == "extrapolated"
    strange = TABLES.curve("gemm", PCIE, "bf16", "vllm")
    assert strange is not None
    found = strange.answer(64, 4096, 4096)
    assert found.how == "borrowed"
    assert 0 < found.error.median <= found.error.p90
    assert gemm.answer(64, 4096, 4096).error.median < 0.1


def test_the_nearest_relative_is_of_the_same_generation() -> None:
    a100, h100, h200 = (TABLES.devices[name] for name in ("A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM-141GB"))
    h20 = replace(h200, name="H20", bf16_flops=148e12, fp8_flops=296e12, memory_bw=4e12)
    assert distance(h100, h100) == 0 < distance(h100, h200) < distance(h100, a100)
    assert distance(h20, h200) < distance(h20, a100)


def test_the_engines_own_table_serves_unless_it_is_no_kernel_to_serve_by() -> None:
    built = {name: Measured().build(Pool(LLAMA_8B, KNOWN, engine=Engine(name=name))) for name in ("vllm", "sglang")}
    for name, estimator in built.items():
        description = estimator.describe()["tables"]
        assert isinstance(description, dict)
        assert name in description["gemm bf16"]["table"]


def test_describe_tells_tables_errors_sources_and_the_rest() -> None:
    result = json.loads(json.dumps(Measured(cpu_step_s=0.001).build(Pool(DEEPSEEK_V3, H100, tensor=8)).describe()))
    assert result["estimator"] == "measured"
    assert {"moe bf16", "mla_decode bf16", "gemm bf16"} <= set(result["tables"])
    assert all(each["table"] and each["error"]["median"] > 0 and each["borrowed"] for each in result["tables"].values())
    assert any("Apache-2.0" in source for source in result["about"]["sources"])
    assert result["efficiencies"]["cpu_step_s"]["source"] == "given by the user"


def test_the_shipped_tables_are_small() -> None:
    assert SHIPPED.stat().st_size < 400_000


@pytest.mark.parametrize("text", ("", "[]", '{"kind": "operator tables", "schema": 9}', '{"kind": "fitted step cost"}'))
def test_a_file_without_tables_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tables.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"tables\.json: .*poise|tables\.json: its schema"):
        load_tables(path)


def test_a_file_that_lacks_a_kind_says_which(tmp_path: Path) -> None:
    result = json.loads(SHIPPED.read_text(encoding="utf-8"))
    result["tables"] = [row for row in result["tables"] if row["kind"] != "decode"]
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(result), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"no table of decode"):
        Measured(tables=str(path)).build(Pool(LLAMA_8B, H100))


def test_hybrid_models_build() -> None:
    assert Measured().build(Pool(HYBRID, H100, tensor=2, data=2, expert=4)).step(StepShape(9)).base > 0


@pytest.mark.parametrize(
    ("spelt", "known"),
    [
        ("vLLM", "vllm"),
        ("TensorRT-LLM + Triton backend", "trtllm"),
        ("TRT-LLM", "trtllm"),
        ("SGLang", "sglang"),
        ("x", "x"),
    ],
)
def test_an_engine_is_known_however_it_is_spelt(spelt: str, known: str) -> None:
    assert framework(spelt) == known


@pytest.mark.parametrize("name", ["H100", "B200"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_kernel_is_chosen_only_where_it_was_measured(name: str, engine: str) -> None:
    probe = (256.0, 512.0 * 32, 4.0, 128.0)
    found = TABLES.usual("prefill", device(name), "bf16", engine, probe)
    assert found is not None
    assert found.covers(*probe)
    borrowed = TABLES.usual("prefill", device("GB200"), "bf16", engine, probe)
    assert borrowed is not None
    assert borrowed.borrowed
    assert borrowed.covers(*probe)


def test_models_published_in_fp8_by_blocks_take_kernels_for_that() -> None:
    for name, form in (("minimax-m2.5", "fp8_block"), ("qwen3-235b-a22b", "fp8")):
        costs = Measured().build(Pool(model(name), device("H100"), tensor=8, weights="fp8"))
        assert f"moe {form}" in costs.describe()["tables"]  # type: ignore[operator]


@pytest.mark.parametrize("name", ["H100", "B200"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("form", ["bf16", "fp8"])
def test_a_kernel_is_chosen_for_each_number_of_tokens(name: str, engine: str, form: str) -> None:
    machine, probes = device(name), [(2.0**at, 28672.0, 8192.0) for at in range(15)]
    chosen = TABLES.tried("gemm", machine, form, engine, probes)
    tables = [t for t in TABLES.tables if (t.kind, t.device, t.format) == ("gemm", machine.name, form)]
    curves = [TABLES.curve("gemm", machine, form, t.framework, t.kernel) for t in tables if t.framework != "vidur"]
    for probe, found in zip(probes, chosen, strict=True):
        fastest = min(curve.seconds(*probe) for curve in curves if curve is not None and curve.covers(*probe))
        assert found.seconds(*probe) <= SLOW * fastest
        assert found.table.framework == engine or found.seconds(*probe) == fastest


@pytest.mark.parametrize(("engine", "kernel"), [("vllm", "marlin"), ("sglang", "flashinfer")])
def test_packed_weights_run_by_the_engine_s_own_kernel(engine: str, kernel: str) -> None:
    """SGLang's kernel for experts in int4 on B200 is a third faster than vLLM's, which cannot run it."""
    shape = (30e6 / 8, 384.0, 1.0, SKEW)
    for curve in TABLES.tried("moe", device("B200"), "int4_wo", engine, [(2.0**at, *shape) for at in range(12)]):
        assert curve.table.framework == engine and kernel in curve.table.kernel
    borrowed = TABLES.tried("moe", device("B200"), "int4_wo", "trtllm", [(64.0, *shape)])
    assert borrowed, "an engine without a kernel of its own takes another's"


def test_large_products_in_fp8_take_the_engines_own_kernel_where_small_ones_do_not() -> None:
    small, large = TABLES.tried(
        "gemm", device("H100"), "fp8", "trtllm", [(64.0, 4096.0, 4096.0), (4096.0, 4096.0, 4096.0)]
    )
    assert (small.table.framework == "trtllm", large.table.framework == "trtllm") == (False, True)


def test_an_operator_is_predicted_by_the_kernel_of_its_octave() -> None:
    probes = [(2.0**at, 4096.0, 4096.0) for at in range(8)]
    slices = [c.slice(1, 4096.0, 4096.0) for c in TABLES.tried("gemm", device("H100"), "fp8", "trtllm", probes)]
    tried = Tried(slices)
    for tokens, at in ((1, 0), (0.5, 0), (63, 6), (65, 6), (100_000, 7)):
        assert tried.seconds(tokens) == slices[at].seconds(tokens)


def test_stages_share_prompts_out() -> None:
    pool = Pool(LLAMA_70B, H100, pipeline=2, weights="fp8")
    estimator = Measured().build(pool)
    one, two, four = (estimator.step(StepShape(0, (Chunk(1024, 0),) * n)).base for n in (1, 2, 4))
    assert two == pytest.approx(one, rel=0.02)
    assert four == pytest.approx(estimator.step(StepShape(0, (Chunk(2048, 0),))).base, rel=0.1)


@pytest.mark.parametrize(("name", "apart"), [("H100", True), ("RTX-4090", False), ("A100", False)])
def test_a_decode_fills_a_tile_in_one_kernel_with_a_chunk(name: str, apart: bool) -> None:
    """FlashAttention 2 (Ampere, Ada) gives each head of a decode a tile of 64 queries; FlashAttention 3 packs them."""
    pool = Pool(LLAMA_8B, device(name), engine=Engine(name="vllm"))
    costs = Measured().build(pool)._lane(1.0)
    assert isinstance(costs, Curves)
    for decodes, context in ((1.0, 16_384), (16.0, 2048), (64.0, 512)):
        alone, beside = costs.decoding(decodes), costs.beside(decodes)
        assert all(long >= short for long, short in zip(beside, alone, strict=True))
        assert (beside == alone) == apart
        if not apart:
            (each,) = costs._attended
            assert each.surface is not None
            tiles = each.surface.seconds(context, 64 * 32 * decodes) - each.floor
            least = alone[0] + alone[1] * decodes * context
            assert beside[0] + beside[1] * decodes * context == pytest.approx(max(32e12 * tiles, least), rel=0.35)


def test_a_relatives_narrow_widths_go_with_what_the_device_does_at_once() -> None:
    h200 = TABLES.devices["H200-SXM-141GB"]
    twin = replace(h200, name="twin", bf16_flops=4 * h200.bf16_flops, memory_bw=h200.memory_bw / 4)
    for kind in ("decode", "gemm", "all_reduce"):
        lent = TABLES.curve(kind, twin, "bf16", "vllm")
        assert lent is not None
        (lender,) = (t for t in TABLES.tables if t.label == lent.table.label)
        near = TABLES.devices[lender.device]
        more, wider = (twin.bf16_flops / near.bf16_flops) ** 0.5, (twin.memory_bw / near.memory_bw) ** 0.5
        more, wider = (1.0, 1.0) if kind == "all_reduce" else (more, wider)
        assert lent.table.shape[:3] == lender.shape[:3]
        for found, width, times in zip(lent.table.shape[3:], lender.shape[3:], (more, more, wider, wider), strict=True):
            assert found == pytest.approx(times * width)


def test_a_new_devices_kernel_is_known_by_its_name_or_taken_for_a_usual_one() -> None:
    probe = (1024.0, 512.0, 4.0, 128.0)
    b300 = device("B300")
    known = TABLES.named("decode", b300, "bf16", "vllm", "vllm_flashinfer_trtllmdecode", probe)
    strange = TABLES.named("decode", b300, "bf16", "sglang", "of tomorrow", probe)
    usual = TABLES.usual("decode", b300, "bf16", "sglang", probe)
    assert known is not None
    assert known.table.kernel == "vllm_flashinfer_trtllmdecode"
    assert strange is not None
    assert usual is not None
    assert strange.table == usual.table
    assert TABLES.named("nothing", b300, "bf16", "sglang", "", probe) is None


@pytest.mark.parametrize(
    ("engine", "data", "expected"),
    [
        ("sglang", 32, {"moe_ep fp8_block deepepmoe graph", "moe_ep fp8_block deepepmoe", "dispatch deepep ll"}),
        ("sglang", 8, {"moe fp8_block"}),
        ("trtllm", 32, {"dispatch NVLink bfloat16", "combine NVLink bfloat16"}),
        ("trtllm", 8, {"moe fp8_block", "mla_prefill_module fp8_block", "all_gather nccl", "reduce_scatter nccl"}),
        ("vllm", 8, {"moe fp8_block", "mla_prefill_module fp8_block"}),
        ("sglang", 1, {"moe fp8_block"}),
    ],
)
def test_experts_that_are_sent_their_tokens_and_whole_attention_have_tables(
    engine: str, data: int, expected: set[str]
) -> None:
    machine = device("H200" if data <= 8 else "GB200")  # recipes have SGLang send tokens over several hosts only
    expert = max(8, data)
    pool = Pool(model("deepseek-r1"), machine, data=data, expert=expert, weights="fp8", engine=Engine(name=engine))
    pool = pool if data > 1 else replace(pool, tensor=8)
    found = Measured().build(pool).describe()["tables"]
    assert isinstance(found, dict)
    assert expected <= set(found)
    assert ("moe_ep" in " ".join(found)) == ("moe_ep" in " ".join(expected))
    assert ("mla_prefill_module fp8_block" in found) == (engine != "sglang")  # SGLang's was measured without graphs


def test_a_linear_layer_walks_its_longest_chunk() -> None:
    quick, slow = (Measured(scan_token_s=each).build(Pool(HYBRID, H100)) for each in (0.0, 1e-6))
    for chunks, longest in (
        ((Chunk(500, 0),), 500),
        ((Chunk(500, 0), Chunk(300, 50)), 500),
        ((Chunk(8, 0, 0, 24),), 4),
    ):
        longer = slow.step(StepShape(3, chunks)).base - quick.step(StepShape(3, chunks)).base
        assert longer == pytest.approx(longest * HYBRID.linear_layers * 1_000_000, abs=2)
    assert slow.step(StepShape(3)) == quick.step(StepShape(3))
