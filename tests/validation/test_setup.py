"""What a run of InferenceX is taken to have been, and what a row of another source is not."""

from __future__ import annotations

from poise.catalogue import device, model
from poise.validation.condition import read_condition
from poise.validation.row import Row
from poise.validation.served import batcher_of
from poise.validation.setup import UNKNOWN, setup_of
from tests.validation.made import row

R1, B200 = model("deepseek-r1"), device("B200")
NOTES = "disaggregated serving; prefill workers=? x (tp8,dp1,moe_tp1,ep8); decode workers=? x (tp8,dp1,moe_tp1,ep8); "


def a_run(load: str = "concurrency=896", **given: object) -> Row:
    stated = {
        "engine": "TensorRT-LLM", "version": "0.8.1.post2", "model": "DeepSeek-R1/V3", "device": "B200-SXM-180GB",
        "devices": 0, "tensor": 8, "pipeline": 1, "expert": 8, "data": 1, "precision": "fp8/not stated",
        "prompt": 1024.0, "output": 1024.0, "load": load, "disagg": True,
        "notes": NOTES + "gemm=fp8 moe=fp8; dump 2026-03-25; measured 2026-03-01; statistic not stated", **given,
    }  # fmt: skip
    return row(**stated)


def test_a_configuration_fills_what_the_result_leaves_open() -> None:
    reading = read_condition(a_run())
    prefill, decode = reading.condition.pools
    assert (prefill.replicas, prefill.data, prefill.tensor) == (1, 8, 1)
    assert (decode.replicas, decode.data, decode.expert) == (7, 8, 8)
    assert any("configuration" in note for note in reading.assumed)
    assert any("3 tokens drafted" in note for note in reading.assumed)


def test_a_recipe_bounds_what_workers_admit() -> None:
    """Of SGLang's limits those on requests and chunks are shared out among ranks."""
    notes = (
        "disaggregated serving; prefill workers=1 x (tp1,dp8,moe_tp8,ep1); decode workers=2 x (tp1,dp8,moe_tp1,ep8); "
    )
    stated = a_run(
        "concurrency=288", engine="SGLang", version="0.5.8.post1", devices=24, data=8, tensor=1, prompt=8192.0,
        notes=notes + "gemm=fp8 moe=fp8; dump 2026-03-25; measured 2026-03-18; statistic not stated",
    )  # fmt: skip
    prefill, decode = (pool.engine for pool in read_condition(stated).condition.pools)
    assert (prefill.max_sequences, prefill.token_budget) == (8, 65536)
    assert decode.max_sequences == 128


def test_no_layout_is_guessed_where_the_result_says_another() -> None:
    other = a_run(tensor=4, notes=NOTES.replace("tp8", "tp4") + "dump 2026-03-25; measured 2026-03-01")
    assert setup_of(other, R1, B200, "fp8", 896)[0].layout is None


def test_rows_of_other_sources_have_the_engines_own_defaults() -> None:
    stated = a_run(notes=NOTES + "measured 2026-03-01")
    assert setup_of(stated, R1, B200, "fp8", 896) == (UNKNOWN, ())


def test_flags_reach_the_batcher() -> None:
    together = {"disagg": False, "expert": 1, "notes": "aggregated serving; dump 2026-03-25; measured 2026-03-01"}
    sglang = read_condition(a_run("concurrency=64", engine="SGLang", version="0.5.9", **together)).condition
    assert batcher_of(sglang).recv_interval == 30  # type: ignore[attr-defined]
    assert sglang.pools[0].engine.token_budget == 32768
    trt = read_condition(a_run("concurrency=64", version="1.2.0rc6.post2", **together)).condition
    batcher = batcher_of(trt)
    assert (batcher.timeout_iters, batcher.max_tokens_ratio) == (40, 0.8)  # type: ignore[attr-defined]
