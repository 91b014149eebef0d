"""Windows that tell nothing are left out, each for its reason."""

from __future__ import annotations

import pytest

from poise.recordings.engine_logs.windows import REASONS, Log, read_lines
from tests.recordings.engine_logs.made import SGLANG_START, START, sglang_line, vllm_line


def prefill(requests: int = 1, tokens: int = 400, running: int = 10) -> str:
    return (
        f"[2026-11-22 09:00:01 TP0] Prefill batch. #new-seq: {requests}, #new-token: {tokens}, #cached-token: 100, "
        f"token usage: 0.10, #running-req: {running}, #queue-req: 0, \n"
    )


def of(*lines: str) -> Log:
    return read_lines(lines)


def test_a_window_of_vllm_by_hand() -> None:
    log = of(START, vllm_line(0, 1000, 10, 0.01), vllm_line(600, 1000, 10, 0.02))
    (row,) = log.rows
    assert row.seconds == pytest.approx(10 / 1000)
    assert (row.steps, row.running, row.pairs) == (1.0, 10, 0.0)
    assert row.prompt_tokens == pytest.approx(600 * 0.01), "600 tokens/s over 100 steps/s"
    # START is two lines in one: the cache's size is read all the same.
    assert row.kv_tokens == pytest.approx(0.015 * 400_000)
    assert (log.engine, log.windows, dict(log.left)) == ("vllm", 2, {"first": 1})


def test_a_window_of_sglang_by_hand() -> None:
    log = of(SGLANG_START, sglang_line(10, 1000, 900), prefill(2, 400), sglang_line(10, 1400, 1000))
    (row,) = log.rows
    assert row.seconds == pytest.approx(10 / 1000)
    assert row.steps == pytest.approx(1 + 1 / 40), "a batch of prompts is a step too"
    assert row.prompt_tokens == pytest.approx(400 / 40) and row.kv_tokens == 1200
    alike = 2 * (200 * 50 + 200 * 201 / 2)  # two prompts of 200 behind 50 tokens each
    assert row.pairs == pytest.approx(alike / 40)
    (row,) = of("decode_log_interval=10\n", sglang_line(10, 1000, 900), prefill(), sglang_line(10, 1400, 1000)).rows
    assert row.prompt_tokens == pytest.approx(400 / 10)


def test_engines_in_one_log_are_distinguished() -> None:
    other = [vllm_line(0, rate, 90, 0.5).replace("Engine 000", "Engine 001") for rate in (1.0, 2.0)]
    log = of(vllm_line(0, 1000, 10, 0.1), other[0], vllm_line(0, 500, 10, 0.1), other[1])
    assert [row.running for row in log.rows] == [10, 90] and log.left["first"] == 2


BEFORE = (sglang_line(10, 1000, 900),)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((*BEFORE, "[2026-11-22 09:00:01] Decode batch. #running-req: 1", sglang_line(10, 1, 1)), "unreadable"),
        ((*BEFORE, prefill().replace("400", "many"), sglang_line(10, 1, 1)), "unreadable"),
        ((vllm_line(0, 1, 1, 0.5), vllm_line(0, 1, 1, 1.5)), "contradictory"),
        ((SGLANG_START, *BEFORE, sglang_line(10, 400_001, 5)), "contradictory"),
        ((SGLANG_START, *BEFORE, sglang_line(10, 9000, 5).replace("usage: 0.02", "usage: 0.52")), "contradictory"),
        ((*BEFORE, *BEFORE), "repeated"),
        ((*BEFORE, prefill(running=0), sglang_line(10, 1, 1)), "idle"),
        ((vllm_line(0, 1, 0, 0.5), vllm_line(0, 1, 1, 0.5)), "idle"),
        ((*BEFORE, sglang_line(10, 1, 0)), "stalled"),
        ((*BEFORE, sglang_line(12, 1, 1)), "unsteady"),
        (
            (*BEFORE, "KV cache pool is full. Retract requests. #retracted_reqs: 2, ", sglang_line(10, 1, 1)),
            "preempted",
        ),
        ((*BEFORE, sglang_line(10, 1, 1).replace("cuda", "accept len: 2.10, cuda")), "speculative"),
        ((vllm_line(0, 1, 1, 0.5), vllm_line(0, 2, 1, 0.5), "SpecDecoding metrics: Mean"), "speculative"),
        ((vllm_line(0, 1, 1, 0.5), vllm_line(9, 2, 1, 0.5, hits=0.4)), "cached"),
        (("enable_mixed_chunk=True", *BEFORE, prefill(), sglang_line(10, 1, 1)), "mixed"),
        (
            (vllm_line(0, 1, 1, 0.5), vllm_line(9, 2, 1, 0.5).replace("Engine 000", "2 Engines Aggregated")),
            "aggregated",
        ),
    ],
)
def test_every_reason(lines: tuple[str, ...], reason: str) -> None:
    log = of(*lines)
    assert log.left[reason] == 1 and not log.rows
    assert set(log.left) <= set(REASONS)


def test_every_window_is_a_row_or_has_a_reason() -> None:
    lines = [sglang_line(10 + each % 3, 1000 + each, 100 + each % 7) for each in range(50)]
    log = of(*lines)
    assert log.windows == 50 == len(log.rows) + sum(log.left.values())


def test_an_engine_that_starts_again_begins_again() -> None:
    log = of(SGLANG_START, *BEFORE, SGLANG_START, sglang_line(10, 2000, 5))
    assert not log.rows and log.left["first"] == 2


def test_iterations_take_what_requests_hold_from_the_windows_around_them() -> None:
    def step(number: int, decodes: int, ms: float = 20.0) -> str:
        return (
            f"(EngineCore_DP0 pid=1) Iteration({number}): 1 context requests, 30 context tokens, {decodes} generation "
            f"requests, {decodes} generation tokens, iteration elapsed time: {ms:.2f} ms"
        )

    log = of(START, step(0, 4), vllm_line(0, 1, 10, 0.1), step(1, 4), step(2, 0), vllm_line(0, 1, 20, 0.4), step(3, 4))
    # 4000 and 8000 tokens a request: 6000 in the mean.
    assert [row.kv_tokens for row in log.iterations] == [None, pytest.approx(4 * 6000), 0.0, None]
    assert [row.prompt_tokens for row in log.iterations] == [30] * 4
    assert of(step(0, 4, 0.0)).left == {"contradictory": 1}
    assert of(step(0, 4).replace("4 generation tokens", "9 generation tokens")).left == {"speculative": 1}
