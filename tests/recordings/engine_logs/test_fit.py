"""Logs of an engine whose cost is known give that cost back, and those that tell too little say what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poise.core.errors import TraceError
from poise.cost import Fitted
from poise.recordings.engine_logs.fit import LogFit, fit_log
from poise.recordings.engine_logs.windows import read_lines
from tests.recordings.engine_logs.made import START, sglang, sglang_line, vllm, vllm_line

TRUE = Fitted(0.008, 30e-6, 0.0, 1e-4, 40e-9)
PAIRED = Fitted(0.012, 20e-6, 20e-9, 2e-4, 20e-9)


def fitted(text: str, prior: Fitted | None = None) -> LogFit:
    return fit_log(read_lines(text.splitlines(keepends=True)), "engine.log", prior=prior)


def near(found: LogFit, true: Fitted, decode: float) -> None:
    """decode: how far that of a request with 500 tokens may be off. What a decode costs itself and by its context vary
    together, so they are told apart worse than together."""
    assert found.cost.step_s == pytest.approx(true.step_s, rel=0.01)
    assert found.cost.prompt_token_s == pytest.approx(true.prompt_token_s, rel=0.04)
    whole = found.cost.sequence_s + 500 * found.cost.kv_token_s
    assert whole == pytest.approx(true.sequence_s + 500 * true.kv_token_s, rel=decode)


@pytest.mark.parametrize(("seed", "dot", "true"), [(1, ".", TRUE), (2, ",", TRUE), (3, ".", PAIRED)])
def test_the_cost_behind_a_log_of_sglang_is_found(seed: int, dot: str, true: Fitted) -> None:
    """Steps vary by 2 % at random."""
    found = fitted(sglang(true, seed, noise=0.02, dot=dot))
    near(found, true, 0.03)
    assert found.cost.pair_s == pytest.approx(true.pair_s, abs=1e-9)
    assert not found.kept and found.of == "windows"
    assert found.held_out["decoding"]["median"] < 0.01 and found.held_out["with_prompts"]["p90"] < 0.05
    assert all(error is not None for error in found.errors.values())


@pytest.mark.parametrize(("seed", "iterations"), [(2, False), (3, False), (1, True)])
def test_the_cost_behind_a_log_of_vllm_is_found(seed: int, iterations: bool) -> None:
    """Its windows are long and few."""
    found = fitted(vllm(TRUE, seed, noise=0.02, iterations=iterations, many=30 if iterations else 80))
    near(found, TRUE, 0.05)
    assert set(found.kept) == {"pair_s"} and "how long each prompt was" in found.kept["pair_s"]
    assert found.of == ("iterations" if iterations else "windows")
    assert found.held_out["with_prompts"]["median"] < 0.02
    assert any("asynchronous" in note for note in found.notes) == iterations


def test_broken_lines_are_counted_and_hardly_matter() -> None:
    lines = sglang(TRUE).splitlines(keepends=True)
    broken = range(50, len(lines), 100)
    for at in broken:  # a full disk's line, or one that the next runs into
        lines[at] = lines[at][: lines[at].index("batch") + 30] + "\n" * (at % 200 < 100)
    found = fitted("".join(lines))
    assert found.left["unreadable"] == len(broken) == found.cost.about["left_out"]["unreadable"]
    near(found, TRUE, 0.03)


def test_without_the_size_of_the_cache_reads_of_it_are_kept_and_named() -> None:
    text = vllm(TRUE).removeprefix(START)
    found = fitted(text)
    assert set(found.kept) == {"pair_s", "kv_token_s"} and "GPU KV cache size" in found.kept["kv_token_s"]
    known = fitted(text, TRUE)
    assert known.cost.kv_token_s == TRUE.kv_token_s and known.kept["kv_token_s"].endswith("kept at 4e-08 s")


def test_iterations_alone_are_all_taken() -> None:
    """Without windows nobody knows what decodes read, so their steps are not left out beside those of prompts alone."""
    lines = vllm(TRUE, iterations=True, many=2).splitlines(keepends=True)
    found = fitted("".join(line for line in lines if "Avg prompt" not in line))
    assert found.rows == 1200 and set(found.kept) == {"pair_s", "kv_token_s"} and not found.left


def steady(line: Callable[[int], str], many: int = 40) -> str:
    return "".join(map(line, range(many)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\nworld\n", r"engine\.log: of 2 lines, none that vLLM or SGLang write .* give the log of an engine"),
        ("", r"of 0 lines, none"),
        ("Avg prompt throughput: x\n", r"of 1 lines, 1 broken ones"),
        (
            steady(lambda at: sglang_line(10, 1000 + at, 100), 20),
            r"19 windows of steady load in 20 lines, and it takes 30 \(left out: windows whose .*: 1\); log for",
        ),
        (
            steady(lambda at: vllm_line(5, 100 + at, 10, 0.1, hits=0.5)),
            r"0 windows .* more than 5% were cached, .*: 39; windows whose",
        ),
        (
            steady(lambda at: sglang_line(10 + at % 2, 1000 + at, 100)),
            r"prompts are in none, so the windows do not tell what a prompt token takes; log while .* --prior FILE",
        ),
        (steady(lambda at: vllm_line(100, 100, 10, 0.1)), "0 windows|so few variants"),
    ],
)
def test_what_tells_too_little(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        fitted(text)
