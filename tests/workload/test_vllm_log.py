"""vLLM's logs of requests and its answers as traces; lines as the versions of vLLM write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.core.errors import TraceError
from poise.core.units import SECOND
from poise.workload import read
from tests.workload.files import put

PARAMS = (
    "SamplingParams(n=1, presence_penalty=0.0, temperature=0.7, top_p=0.95, seed=None, stop=[], ignore_eos=False, "
    "max_tokens={limit}, min_tokens=0, logprobs=None, truncate_prompt_tokens=None, extra_args=None)"
)
SERVER = "(APIServer pid=90458) "
NOISE = (
    f"{SERVER}INFO:     Started server process [90458]\n"
    f"{SERVER}INFO 02-13 11:33:33 [async_llm.py:382] Added request chatcmpl-a-a8a65d16.\n"
    f'{SERVER}INFO:     10.80.23.18:51408 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    f"{SERVER}INFO 02-13 11:33:39 [loggers.py:257] Engine 000: Avg prompt throughput: 0.8 tokens/s, Running: 0 reqs\n"
)


def ids(first: int, count: int) -> str:
    return str(list(range(first, first + count)))


def received(name: str, stamp: str, limit: int = 100, lora: str = "None") -> str:
    params = PARAMS.format(limit=limit)
    return f"{SERVER}INFO {stamp} [logger.py:49] Received request {name}: params: {params}, lora_request: {lora}.\n"


def details(name: str, stamp: str, tokens: str) -> str:
    line = f"Request {name} details: prompt: 'a [1, 2] b', prompt_token_ids: {tokens}, prompt_embeds shape: None."
    return f"{SERVER}DEBUG {stamp} [logger.py:40] {line}\n"


def response(name: str, stamp: str, tokens: str, how: str = "") -> str:
    line = f"Generated response {name}{how}: output: 'x', output_token_ids: {tokens}, finish_reason: stop"
    return f"{SERVER}INFO {stamp} [logger.py:80] {line}\n"


def test_a_log_of_today(tmp_path: Path) -> None:
    """Prompts in details at DEBUG, answers whole, in deltas, and with their ids in details; prefixes are found."""
    text = NOISE
    text += details("chatcmpl-a", "02-13 11:33:33", ids(0, 40)) + received("chatcmpl-a", "02-13 11:33:33")
    text += received("chatcmpl-b", "02-13 11:33:35", 7, "LoRARequest(lora_name='sql', lora_int_id=1)")
    text += details("chatcmpl-b", "02-13 11:33:35", str([*range(32), 7, 7]))
    text += response("chatcmpl-b", "02-13 11:33:36", "[1, 2]", " (streaming delta)")
    text += response("chatcmpl-b", "02-13 11:33:36", "[3]", " (streaming delta)")
    text += response("chatcmpl-b", "02-13 11:33:36", "[1, 2, 3]", " (streaming complete)")
    text += (
        f"{SERVER}DEBUG 02-13 11:33:37 [logger.py:90] Generated response chatcmpl-a details: output_token_ids: (5, 6)\n"
    )
    text += (
        f"{SERVER}INFO 02-13 11:33:37 [logger.py:95] Generated response chatcmpl-a: output: 'y', finish_reason: stop\n"
    )
    made = read(put(tmp_path, "server.log", text))
    assert made.source["format"] == "vllm" and made.source["skipped"] == 0
    assert made.prompt.tolist() == [40, 34] and made.output.tolist() == [2, 3]
    assert made.arrival.tolist() == [0, 2 * SECOND]
    assert made.max_tokens is not None and made.max_tokens.tolist() == [100, 7]
    assert made.lora is not None and made.lora.tolist() == [-1, 0]
    assert made.reachable_tokens(16).tolist() == [0, 32]


def test_a_log_of_old(tmp_path: Path) -> None:
    """Token ids stand in the line that says what was received, and a prompt of a completion has a number behind."""
    lines = []
    for at, name in enumerate(("cmpl-1-0", "cmpl-2-0")):
        params = PARAMS.format(limit=200)
        line = f"prompt: 'Who?', params: {params}, prompt_token_ids: {ids(9, 20)}, lora_request: None."
        lines.append(f"INFO 10-02 13:00:4{2 + at} logger.py:36] Received request {name}: {line}\n")
        lines.append(f"INFO 10-02 13:00:4{3 + at} logger.py:60] Generated response {name[:-2]}: output: '', "
                     f"output_token_ids: [4, 5, 6], finish_reason: length\n")  # fmt: skip
    made = read(put(tmp_path, "old.log", "".join(lines)))
    assert made.prompt.tolist() == [20, 20] and made.output.tolist() == [3, 3]
    assert made.reachable_tokens(16).tolist() == [0, 16]


def test_new_year(tmp_path: Path) -> None:
    text = ""
    for name, stamp in (("a", "12-31 23:59:59"), ("b", "01-01 00:00:01")):
        text += details(name, stamp, ids(0, 8)) + received(name, stamp) + response(name, stamp, "[1]")
    assert read(put(tmp_path, "server.log", text)).arrival.tolist() == [0, 2 * SECOND]


def test_requests_without_an_answer(tmp_path: Path) -> None:
    text = details("a", "02-13 11:33:33", ids(0, 8)) + received("a", "02-13 11:33:33")
    text += response("a", "02-13 11:33:34", "[1]") + received("b", "02-13 11:33:35")
    path = put(tmp_path, "server.log", text)
    with pytest.raises(TraceError, match="line 4: the log has no token ids of its prompt"):
        read(path)
    made = read(path, skip_bad=True)
    assert len(made) == 1 and made.source["skipped"] == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NOISE, "no line says that a request was received"),
        (received("a", "02-13 11:33:33"), "no token ids of prompts, so no lengths; start vLLM with VLLM_LOGGING_LEVEL"),
        (
            received("a", "02-13 11:33:33") + details("a", "02-13 11:33:33", ids(0, 8)),
            "no token ids of answers, so no lengths",
        ),
    ],
)
def test_logs_that_say_too_little(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(TraceError, match=line):
        read(put(tmp_path, "server.log", text), format="vllm")


@pytest.mark.parametrize("form", ["auto", "vllm"])
def test_answers_with_metrics(tmp_path: Path, form: str) -> None:
    """What vLLM returns with --enable-per-request-metrics, one answer a line: usage gives the lengths."""
    answers = [
        {
            "id": f"chatcmpl-{at}", "object": "chat.completion", "created": 1770000000 + 3 * at, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 42 + at, "completion_tokens": 128, "total_tokens": 170 + at},
            "metrics": {"time_to_first_token_ms": 85.2, "generation_time_ms": 1240.5, "queue_time_ms": 12.3,
                        "mean_itl_ms": 9.1, "tokens_per_second": 103.2},
        }
        for at in range(3)
    ]  # fmt: skip
    path = put(tmp_path, "answers.jsonl", "".join(json.dumps(each) + "\n" for each in answers))
    made = read(path, format=form)
    assert made.prompt.tolist() == [42, 43, 44] and made.output.tolist() == [128] * 3
    assert made.arrival.tolist() == [0, 3 * SECOND, 6 * SECOND] and made.source["format"] == "openai"
