"""Lines of every known wording are read; broken ones are said to be so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.recordings.engine_logs.line import UNREADABLE, Iteration, Prompts, Setting, Window, line_of
from tests.recordings.engine_logs.made import sglang_line, vllm_line

V0 = (
    "INFO 11-01 01:34:11 metrics.py:363] Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: 30.0 "
    "tokens/s, "
    "Running: 3 reqs, Swapped: {swapped} reqs, Pending: 0 reqs, GPU KV cache usage: 7.5%, CPU KV cache usage: 0.0%."
)
V1 = (
    "qwen | (APIServer pid=1) INFO 04-18 22:48:24 [loggers.py:259] {of}Avg prompt throughput: 247.0 tokens/s, Avg "
    "generation throughput: 30.4 tokens/s, Running: 4 reqs, Waiting: 0 reqs, {more}GPU KV cache usage: 1.5%, Prefix "
    "cache hit rate: 2.0%, MM cache hit rate: 0.0%"
)
STEP = (
    "(EngineCore_DP1 pid=10) INFO [core.py:359] Iteration(7): 1 context requests, 8000 context tokens, 2 generation "
    "requests, 2 generation tokens, iteration elapsed time: 100.5 ms"
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (V0.format(swapped=0), Window("0", 3, 30.0, 12.5, usage=0.075)),
        (V0.format(swapped=2), Window("0", 3, 30.0, 12.5, usage=0.075, preempted=True)),
        (V1.format(of="Engine 002: ", more=""), Window("2", 4, 30.4, 247.0, usage=0.015, hits=0.02)),
        (
            V1.format(of="Engine 000: ", more="Deferred: 1 reqs, Preemptions: 3, "),
            Window("0", 4, 30.4, 247.0, usage=0.015, hits=0.02, preempted=True),
        ),
        (
            V1.format(of="2 Engines Aggregated: ", more=""),
            Window("0", 4, 30.4, 247.0, usage=0.015, hits=0.02, engines=2),
        ),
        (
            "[2025-07-18 15:32:54 TP0] Decode batch. #running-req: 1, #token: 2266, token usage: 0.00, cuda graph: "
            "True, gen throughput (token/s): 3.13, #queue-req: 0, timestamp: 2025-07-18T15:32:54.159394",
            Window("TP0", 1, 3.13, tokens=2266, usage=0.0),
        ),
        (
            "[2025-05-07 09:50:01] Decode batch. #running-req: 1, #token: 59, token usage: 0.00, gen throughput "
            "(token/s): 0.96, #queue-req: 0",
            Window("", 1, 0.96, tokens=59, usage=0.0),
        ),
        (
            "[2025-11-04 05:31:43 DP0 TP0 EP0] Decode batch [40], #running-req: 5, #full token: 7424, full token "
            "usage: 0.10, #swa token: 9, swa token usage: 0.20, accept len: 2.77, accept rate: 0.50, cuda graph: True, "
            "gen throughput (token/s): 8.44, #queue-req: 0, ",
            Window("DP0 TP0 EP0", 5, 8.44, tokens=7424, speculative=True),
        ),
        (
            "[2025-01-23 19:35:28 TP0] Prefill batch. #new-seq: 2, #new-token: 7, #cached-token: 3, cache hit rate: "
            "0.00%, token usage: 0.00, #running-req: 1, #queue-req: 0",
            Prompts("TP0", 2, 7, 3, 1),
        ),
        (
            "\x1b[2m2026-04-27T23:03:15.250907Z\x1b[0m Prefill batch, #new-seq: 1, #new-token: 256, #cached-token: 0, "
            "full token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input "
            "throughput (token/s): 0.00",
            Prompts("", 1, 256, 0, 0),
        ),
        (STEP, Iteration("1", 8000, 2, 2, 0.1005)),
        (STEP + " (dummy)", None),
        ("INFO [kv_cache_utils.py:1319] GPU KV cache size: 546,160 tokens", Setting("capacity", 546_160)),
        ("[2025 TP0] max_total_num_tokens=444500, max_prefill_tokens=16384", Setting("capacity", 444_500)),
        ("INFO llm_engine.py:70] # GPU blocks: 100, # CPU blocks: 2048", Setting("capacity", 1600)),
        ("server_args=ServerArgs(decode_log_interval=10, tp_size=1)", Setting("interval", 10)),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 594", Setting("preempted")),
        ("INFO [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.00", Setting("speculative")),
        ("INFO:     Application startup complete.", None),
        ("", None),
    ],
)
def test_every_wording(text: str, meant: object) -> None:
    assert line_of(text + "\n") == meant


@pytest.mark.parametrize(
    "text",
    [
        vllm_line(1.0, 2.0, 3, 0.5).split(", Running")[0],
        vllm_line(1.0, 2.0, 3, 0.5)[
            : -len(" reqs, Waiting: 0 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%\n")
        ],
        vllm_line(1.0, float("nan"), 3, 0.5),
        vllm_line(-1.0, 2.0, 3, 0.5),
        sglang_line(3, 100, 4.0).replace("#running-req: 3", "#running-req: three"),
        sglang_line(3, 100, float("inf")),
        "[2025-01-23 19:35:28] Prefill batch. #new-seq: 0, #new-token: 7, #cached-token: 3, #running-req: 1",
        "[2025-01-23 19:35:28] Prefill batch. #new-seq: 1, #new-tok",
        STEP[:-3],
        sglang_line(3, 100, 4.0)[:80] + sglang_line(3, 100, 4.0),
    ],
)
def test_broken_lines_are_named_broken(text: str) -> None:
    assert line_of(text) is UNREADABLE


@given(
    st.integers(0, 9999), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 1), st.sampled_from(".,"),
    st.sampled_from(["", "web-1  | ", "2026-11-22T09:00:00Z stdout F ", "\x1b[36m(APIServer pid=1)\x1b[0m "]),
)  # fmt: skip
def test_what_is_written_is_read_whatever_stands_before_it(
    running: int, generated: float, prompts: float, usage: float, hits: float, dot: str, before: str
) -> None:
    window = line_of(before + vllm_line(prompts, generated, running, usage, hits))
    assert isinstance(window, Window) and window.prompts is not None and window.usage is not None
    assert (window.engine, window.running) == ("0", running)
    assert window.generated == pytest.approx(generated, abs=0.051)
    assert window.prompts == pytest.approx(prompts, abs=0.051)
    assert window.usage == pytest.approx(usage, abs=0.00051) and window.hits == pytest.approx(hits, abs=0.00051)
    other = line_of(before + sglang_line(running, int(usage * 1e6), generated, dot))
    assert isinstance(other, Window) and other.prompts is None
    assert (other.running, other.tokens) == (running, int(usage * 1e6))
    assert other.generated == pytest.approx(generated, abs=0.0051)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda each: each.decode("utf-8", "replace")), st.data())
def test_nothing_that_a_line_holds_stops_the_reading(text: str, data: st.DataObject) -> None:
    line_of(text)
    for whole in (vllm_line(1.0, 2.0, 3, 0.5), sglang_line(3, 100, 4.0), STEP, V0):
        at = data.draw(st.integers(0, len(whole)))
        line_of(whole[:at] + text + whole[at:])
        line_of(whole[:at])
