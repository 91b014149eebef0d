"""Loads with continuous batching against hand calculations."""

from __future__ import annotations

import numpy as np
import pytest

from poise.catalogue.engines import engine_defaults
from poise.core.estimate import StepShape
from poise.core.spec import Cluster
from poise.core.units import SECOND
from poise.cost import kv_blocks
from poise.cost.memory import footprint
from poise.scenario.engine_cost import cost_for
from poise.validation.assumptions import LEVELS
from poise.validation.batch import decode_s, prefill_s
from poise.validation.condition import Condition, read_condition
from poise.validation.load import load_of
from poise.validation.requests import RATED, counts, gaps, lengths, prompts
from poise.validation.room import RANK_BATCH, balanced, residence, unevicted
from poise.validation.served import served_outcome
from poise.workload.draw import stream
from tests.validation.made import row


def _of(**changes: object) -> Condition:
    return read_condition(row(**changes)).condition


def test_one_client_alone_takes_its_prefill_and_its_steps() -> None:
    condition = _of(load="concurrency=1", notes="vendor sweep")
    estimator = cost_for(condition.pools[0], "vLLM", "")
    first, rest = prefill_s(estimator, 1, 512, 8192), decode_s(estimator, 1, 512, 63)
    found = served_outcome(condition)
    front = engine_defaults("vLLM", "0.15.1").front(512)
    assert found.latency["ttft"]["mean"] == pytest.approx(front + first)
    assert found.latency["tpot"]["mean"] == pytest.approx(rest / 63, rel=1e-3)
    assert found.flow["output"] == pytest.approx(64 / (first + rest), rel=1e-3)


def test_all_start_together_so_the_first_token_waits_for_otherprompts() -> None:
    alone, crowd = (served_outcome(_of(load=f"concurrency={n}", prompt=4000.0)) for n in (1, 16))
    assert crowd.latency["ttft"]["mean"] > 1.5 * alone.latency["ttft"]["mean"]
    assert crowd.latency["ttft"]["p99"] > 6 * alone.latency["ttft"]["p99"]


def test_a_low_rate_is_one_request_at_a_time_and_a_high_one_queues() -> None:
    low, high = (served_outcome(_of(load=f"qps={rate}", notes="200 requests")) for rate in (0.01, 10_000))
    estimator = cost_for(_of().pools[0], "vLLM", "")
    front = engine_defaults("vLLM", "0.15.1").front(512)
    assert low.latency["ttft"]["p50"] == pytest.approx(front + prefill_s(estimator, 1, 512, 8192))
    assert low.flow["request"] == pytest.approx(0.01, rel=0.2)
    assert high.latency["ttft"]["mean"] > 5 * low.latency["ttft"]["mean"]


def test_stages_follow_one_another() -> None:
    found = served_outcome(_of(load="all stages: 1 req/s, 100 req/s", notes="300 requests"))
    assert 600 / found.flow["request"] == pytest.approx(300 / 1 + 300 / 100, rel=0.2)


def test_a_full_queue_is_bounded_by_memory() -> None:
    many, few = (
        served_outcome(_of(load="inf", prompt=128.0, output=512.0, notes=f"KV blocks={blocks}"))
        for blocks in (20_000, 400)
    )
    estimator = cost_for(_of().pools[0], "vLLM", "")
    piece = estimator.step(StepShape(16))
    assert many.flow["output"] > 5 * few.flow["output"]
    held = 400 * 16 / (128 + 512 / 2)  # requests at half their outputs in 400 blocks of 16 tokens
    assert few.flow["output"] < held / (piece.base / SECOND)


def test_a_long_queue_goes_on_at_the_pace_of_its_middle() -> None:
    short, long = (
        served_outcome(_of(load="inf", prompt=128.0, output=128.0, notes=f"{n} requests; max_num_seqs=64"))
        for n in (2560, 100_000)
    )
    assert long.flow["output"] == pytest.approx(short.flow["output"], rel=0.05)
    assert long.flow["total"] == pytest.approx(2 * long.flow["output"])


def test_a_closed_loop_cut_short_is_weighted_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = _of(load="concurrency=100", prompt=300.0, output=100.0)
    whole = served_outcome(condition)
    monkeypatch.setattr("poise.validation.served.REQUESTS", 600)
    cut = served_outcome(condition)
    for part, off in (("ttft", 0.2), ("tpot", 0.05), ("e2e", 0.05)):  # early waves are more alike than later ones
        assert cut.latency[part]["mean"] == pytest.approx(whole.latency[part]["mean"], rel=off)
    assert cut.flow["output"] == pytest.approx(whole.flow["output"], rel=0.1)


def test_prefill_and_decode_apart() -> None:
    notes = "prefill workers=2 x (tp1,dp1); decode workers=1 x (tp1,dp1); vendor sweep"
    condition = _of(load="concurrency=8", disagg=True, devices=3, notes=notes)
    found, together = served_outcome(condition), served_outcome(_of(load="concurrency=8", notes="vendor sweep"))
    assert found.latency["tpot"]["mean"] < together.latency["tpot"]["mean"]  # no prompt holds up a decode
    assert found.figure("output_throughput_per_gpu", "") == pytest.approx(found.flow["output"] / 3)


def test_a_prompt_that_nothing_holds_up_is_handed_over_in_the_engine_s_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes = "prefill workers=1 x (tp1,dp1); decode workers=1 x (tp1,dp1)"
    condition = _of(load="concurrency=1", disagg=True, devices=2, notes=notes)
    found = served_outcome(condition)
    monkeypatch.setattr("poise.validation.served.handing_over", lambda cluster, known: cluster)
    bare = served_outcome(condition)
    later = engine_defaults("vLLM", "0.15.1").handed_s - Cluster(()).link_latency_s
    assert found.latency["ttft"]["mean"] == pytest.approx(bare.latency["ttft"]["mean"] + later)
    assert found.latency["tpot"]["mean"] == pytest.approx(bare.latency["tpot"]["mean"])


def test_a_model_that_does_not_fit_is_answered_and_says_so() -> None:
    found = served_outcome(_of(model="Llama-3.1-70B", load="concurrency=2"))
    assert any("does not fit" in note for note in found.notes)


def test_lengths_are_uniform_below_the_nominal_one() -> None:
    drawn = lengths(1000, 0.8, 20_000, "prompt")
    assert (drawn.min(), drawn.max()) == (800, 1000)
    assert np.mean(drawn) == pytest.approx(900, rel=0.01)
    assert set(lengths(1000, 1.0, 10, "prompt")) == {1000}


def test_memory_that_holds_no_request_is_taken_as_enough() -> None:
    found = served_outcome(_of(load="qps=1", prompt=5000.0, notes="KV blocks=10; 5 requests"))
    assert any("does not fit" in note for note in found.notes)


def test_equal_requests_of_an_engine_with_prompts_first_stay_together() -> None:
    """All prompts of a wave are computed before any decodes, so the mean first token waits for half of them."""
    condition = _of(engine="SGLang", version="0.5.9", load="concurrency=16", prompt=4096.0, notes="vendor sweep")
    estimator = cost_for(condition.pools[0], "SGLang", "0.5.9")
    each = prefill_s(estimator, 1, 4096, 4096)
    front = engine_defaults("SGLang").front(4096)
    assert served_outcome(condition).latency["ttft"]["mean"] == pytest.approx(front + each * 17 / 2, rel=0.05)


def test_workers_that_are_not_stated_are_balanced() -> None:
    notes = "prefill workers=? x (tp1,dp1); decode workers=? x (tp1,dp1)"
    many, few = (
        balanced(_of(load=f"concurrency={n}", disagg=True, devices=0, notes=notes, prompt=4000.0)) for n in (1024, 1)
    )
    assert [pool.replicas for pool in few.pools] == [1, 1]
    assert many.pools[1].replicas == 1024 // RANK_BATCH
    assert many.pools[0].replicas > many.pools[1].replicas  # 4,000 tokens in, 64 out
    assert many.devices == sum(pool.replicas for pool in many.pools)


@pytest.mark.parametrize("mean", [50.0, 294.0])
def test_known_lengths_have_their_mean_and_their_longest(mean: float) -> None:
    known = tuple(float(10 * at + 1) for at in range(len(LEVELS)))
    found = lengths(mean, 1.0, 5000, "output", known)
    assert found.max() <= known[-1]
    if mean < 100:
        assert found.mean() == pytest.approx(mean, rel=0.02)
        assert found.std() > 0.3 * mean


def test_a_request_at_work_is_met_half_way_where_all_are_equal() -> None:
    assert residence(_of(load="inf", output=512.0)) == 256
    set_ = read_condition(row(load="Offline", model="llama2-70b-99", prompt=0.0, output=0.0, tensor=0)).condition
    assert residence(set_) > 1.4 * set_.output / 2


def test_an_engine_that_never_evicts_admits_by_whole_lengths() -> None:
    given: dict[str, object] = {"load": "inf", "prompt": 128.0, "output": 512.0, "notes": "KV blocks=400"}
    some, all_ = (unevicted(_of(engine=name, **given)).pools[0].engine for name in ("TensorRT-LLM", "vLLM"))
    assert some.max_sequences == 400 * 16 // 640
    assert all_.max_sequences > some.max_sequences


def test_memory_that_is_left_free_is_counted_as_its_engine_does() -> None:
    pool = _of(engine="TensorRT-LLM", load="inf").pools[0]
    need = footprint(pool)
    free = pool.device.memory_bytes - need.weights - need.workspace
    assert kv_blocks(pool) == int(0.9 * free / need.block)


def test_a_stage_has_as_many_requests_as_its_rate_says_at_random_instants() -> None:
    load, chance = load_of("all stages: 8 req/s, 20 req/s for 60 s", ""), stream(0, "arrival")
    assert counts(load) == [480, 1200]
    for rate, count in zip(load.rates, counts(load), strict=True):
        waits = gaps(load, rate, count, chance)
        assert waits.sum() == pytest.approx(60)
        assert waits.std() == pytest.approx(waits.mean(), rel=0.15)


def test_stages_last_equally_long_and_long_ones_are_shortened_alike() -> None:
    assert counts(load_of("all stages: 1 req/s, 3 req/s", "")) == [500, 1500]
    assert counts(load_of("all stages: 50 req/s, 150 req/s for 6000 s", "")) == [RATED // 4, 3 * RATED // 4]


def test_prompts_recur_and_share_their_groups_begin() -> None:
    load = load_of("qps=1", "system prompt 100; 2 groups x 3 prompts")
    found = prompts(load, 500, 8)
    assert list(found.counts) == [2] * 8
    ids, ends = found.ids.reshape(8, 2), found.ends.reshape(8, 2)
    assert ends.tolist() == [[100, 500]] * 8
    assert list(ids[:, 0]) == [0, 1] * 4
    assert len(set(ids[:6, 1])) == 6, "all different before one comes again"
    assert list(ids[6:, 1]) == list(ids[:2, 1])


def test_prompts_that_recur_are_found_in_the_cache() -> None:
    notes = "400 requests; system prompt 100"
    once = served_outcome(_of(load="qps=4", prompt=4000.0, notes=notes))
    again = served_outcome(_of(load="qps=4", prompt=4000.0, notes=f"{notes}; 2 groups x 5 prompts"))
    front = engine_defaults("vLLM", "0.15.1").front(4000)
    assert again.latency["ttft"]["p50"] - front < (once.latency["ttft"]["p50"] - front) / 4


def test_asynchronous_scheduling_costs_a_busy_engine_one_step_before_the_first_token() -> None:
    """From v0.14 on, at loads light enough that requests hardly meet otherwise."""
    found = [served_outcome(_of(load="qps=10", notes="400 requests", version=each)) for each in ("0.13", "0.14")]
    front = [engine_defaults("vLLM", each).front(500) for each in ("0.13", "0.14")]
    earlier, later = (each.latency["ttft"]["mean"] - part for each, part in zip(found, front, strict=True))
    assert later - earlier == pytest.approx(found[1].latency["itl"]["mean"], rel=0.5)
