"""What InferenceX's scripts and configurations set for a run, by engine, device, day and load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.validation.layouts import Layout, Run, Side, layouts_of
from poise.validation.recipes import PLAIN, Recipe, recipe_for

B200 = "B200-SXM-180GB"
RUN = Run("TensorRT-LLM", "deepseek-ai/DeepSeek-R1", B200, "fp8", "0.8.1.post2", "2026-03-01", 1024, 1024, 896)


def recipe(engine: str, clients: int, **given: object) -> Recipe:
    fields = {"day": "2026-02-10", "prompt": 1024, "tensor": 8, **given}
    return recipe_for(engine, "deepseek-ai/DeepSeek-R1", B200, "fp8", clients=clients, **fields)  # type: ignore[arg-type]


def test_sglang_reads_its_queue_less_often_from_16_clients_on() -> None:
    assert [recipe("SGLang", clients).recv_interval for clients in (4, 15, 16, 512)] == [10, 10, 30, 30]
    assert recipe("SGLang", 64).token_budget == 32768
    assert recipe("SGLang", 32, tensor=4) == Recipe(token_budget=8192, recv_interval=10)


def test_tensorrt_gathers_prompts_in_some_runs() -> None:
    assert recipe("TensorRT-LLM", 64).wait_iters == 40
    assert recipe("TensorRT-LLM", 32).wait_iters == 0
    assert recipe("TensorRT-LLM", 64, prompt=8192).wait_iters == 0
    assert recipe("TensorRT-LLM", 64, day="2025-11-30").wait_iters == 0


def test_other_runs_are_left_alone() -> None:
    assert recipe("vLLM", 64) == PLAIN
    given = {"day": "", "prompt": 1024, "clients": 64, "tensor": 8}
    assert recipe_for("SGLang", "Qwen/Qwen3-32B", B200, "fp8", **given) == PLAIN  # type: ignore[arg-type]


def test_a_layout_is_known_by_its_clients() -> None:
    """896 clients were only ever sent to seven decode workers that draft three tokens."""
    assert layouts_of(RUN) == (Layout(3, 128, Side(1, 8, 8, True), Side(7, 8, 8, True)),)
    assert not layouts_of(replace(RUN, clients=897))
    assert not layouts_of(replace(RUN, device="RTX-4090"))


@pytest.mark.parametrize(("day", "found"), [("2025-11-01", False), ("2026-03-01", True)])
def test_configurations_have_their_days(day: str, found: bool) -> None:
    assert bool(layouts_of(replace(RUN, version="9.9", day=day))) == found


@pytest.mark.parametrize(("day", "drafts"), [("2026-02-07", {0}), ("2026-02-13", {2}), ("2026-02-18", {0, 2})])
def test_what_runs_on_a_day_is_what_changed(day: str, drafts: set[int]) -> None:
    """Drafting was configured on the 9th and changed on the 13th; days without a change tell nothing."""
    run = replace(RUN, engine="SGLang", version="0.5.8.post1", clients=64, day=day)
    assert {each.drafts for each in layouts_of(run)} == drafts
