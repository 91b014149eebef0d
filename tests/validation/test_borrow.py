"""Loads that are borrowed within a workload."""

from __future__ import annotations

from poise.validation.borrow import RUN_BORROWED, borrow
from poise.validation.condition import read_condition
from tests.validation.made import row

OTHER = row(model="Qwen3-8B", load="qps=9", prompt=10.0, output=10.0, notes="workload chat; stage 0")
SAME = row(load="qps=2", prompt=500.0, output=50.0, notes="workload chat; stage 0; max_num_batched_tokens=1024")
BARE = row(load="", prompt=0.0, output=0.0, notes="workload chat-lite; stage 0; max_num_batched_tokens=2048")


def test_the_same_model_lends_first_and_limits_stay() -> None:
    *_, found = borrow([OTHER, SAME, BARE])
    assert (found.load, found.prompt, found.output) == ("qps=2", 500.0, 50.0)
    reading = read_condition(found)
    assert reading.assumed == ("lengths and load of workload chat-lite",)
    assert reading.condition.pools[0].engine.token_budget == 2048


def test_what_states_its_load_and_what_finds_no_lender_stays() -> None:
    stranger = row(load="", prompt=0.0, output=0.0, notes="workload dance; stage 0")
    elsewhere = row(source="another", load="", prompt=0.0, output=0.0, notes="workload chat; stage 0")
    assert borrow([OTHER, SAME, stranger, elsewhere]) == [OTHER, SAME, stranger, elsewhere]


def test_what_a_source_publishes_of_its_workload_goes_before_other_rows() -> None:
    notes = "experiment 13-qwen3-14b-tp1-general-1; workload general; stage {}; max_num_batched_tokens=2048"
    bare = {"source": "sim_to_real_vllm_measured", "load": "", "prompt": 0.0, "output": 0.0}
    whole, second = borrow([row(notes=notes.format(stage), **bare) for stage in (-1, 1)])
    load = read_condition(whole).condition.load
    assert (load.rates, load.seconds, load.staged) == ((8.0, 20.0), 600.0, True)
    assert (load.system, load.groups, load.prompts) == (100, 10, 10)
    assert read_condition(second).condition.load.rates == (20.0,)
    assert read_condition(whole).condition.pools[0].engine.max_sequences == 128
    assert "workload general" in read_condition(whole).assumed[0]


def test_a_lite_variant_may_be_named_by_the_experiment_alone() -> None:
    notes = "experiment 60-llama-3-1-70b-tp4-general-lite-4-1; workload general; stage 0; max_num_seqs=64"
    (found,) = borrow([row(source="sim_to_real_vllm_measured", load="rate=2.5 req/s for 600 s", notes=notes)])
    condition = read_condition(found).condition
    assert condition.load.rates == (2.5,)
    assert (condition.prompt, condition.pools[0].engine.max_sequences) == (512.0, 64), "its own word counts"


WORKERS = "prefill workers={0} x (tp{1},dp1); decode workers={0} x (tp{1},dp1); measured 2026-02-0{2}"


def test_a_run_that_does_not_count_its_workers_takes_those_of_its_other_row() -> None:
    stated = row(disagg=True, devices=8, tensor=4, load="concurrency=8", notes=WORKERS.format(1, 4, 7))
    silent = row(disagg=True, devices=0, load="concurrency=8", notes=WORKERS.format("?", 1, 7))
    elsewhen = row(disagg=True, devices=0, load="concurrency=8", notes=WORKERS.format("?", 1, 8))
    _, found, alone = borrow([stated, silent, elsewhen])
    assert (found.devices, found.tensor) == (8, 4)
    reading = read_condition(found)
    assert [(pool.tensor, pool.replicas) for pool in reading.condition.pools] == [(4, 1), (4, 1)]
    assert RUN_BORROWED in reading.assumed[0]
    assert alone == elsewhen
