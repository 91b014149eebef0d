"""Words for loads."""

from __future__ import annotations

import pytest

from poise.validation.load import SPREAD, Load, load_of


@pytest.mark.parametrize(
    ("words", "notes", "load"),
    [
        ("static batch 64", "", Load("static", clients=64)),
        ("batch 1", "static batching", Load("static", clients=1)),
        ("batch size 7", "", Load("static", clients=7)),
        ("concurrency=96", "", Load("closed", clients=96, spread=SPREAD)),
        ("max_concurrency=3", "", Load("closed", clients=3, spread=SPREAD)),
        ("concurrency=96", "vendor sweep; x", Load("closed", clients=96)),
        ("qps=8", "500 requests, online serving", Load("rate", rates=(8.0,), requests=500)),
        ("rate=2.5 req/s for 600 s", "", Load("rate", rates=(2.5,), seconds=600.0, staged=True)),
        ("all stages: 2.5 req/s, 6.0 req/s", "", Load("rate", rates=(2.5, 6.0), staged=True)),
        ("Poisson ~10 req/s, 300 ShareGPT-like requests", "", Load("rate", rates=(10.0,), requests=300)),
        ("qps=inf", "500 requests", Load("queued", requests=500)),
        ("inf (all requests queued)", "uniform lengths", Load("queued")),
        ("Offline", "", Load("offline")),
        ("server", "", Load("server")),
        ("SingleStream", "", Load("closed", clients=1)),
        ("", "", Load("unknown")),
        ("production traffic", "", Load("unknown")),
    ],
)
def test_words(words: str, notes: str, load: Load) -> None:
    assert load_of(words, notes) == load


def test_a_common_system_prompt_stands_in_the_notes() -> None:
    assert load_of("rate=1.0 req/s for 20 s", "multi_turn=True, system prompt 100, question 466").system == 100


def test_prompts_that_recur_stand_in_the_notes() -> None:
    load = load_of("all stages: 8 req/s, 20 req/s for 600 s", "system prompt 100; 10 groups x 7 prompts")
    assert load == Load("rate", rates=(8.0, 20.0), seconds=600.0, staged=True, system=100, groups=10, prompts=7)
    assert load_of("qps=2", "7 requests; borrowed: ten groups of 10 prompts").requests == 7, "nor is what is told"
    assert load_of("rate=2 req/s for 600 s", "9 prompts x 5 users").requests == 0, "they are no number of requests"
