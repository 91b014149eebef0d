"""Speculative decoding in scenarios: the spellings of vLLM and SGLang mean the same, and mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from poise.catalogue import device, model
from poise.catalogue.drafts import Method, acceptance
from poise.core.errors import ScenarioError, UserError
from poise.core.estimate import StepShape
from poise.core.spec import Pool
from poise.plan.deploy.speculative import ALGORITHMS, for_sglang, for_vllm
from poise.scenario.build import build
from poise.scenario.engine_cost import EngineCost, Speculative
from poise.scenario.load import load
from poise.scenario.resolve import resolved, write_yaml
from poise.scenario.speculative import flags, read_speculative

from .test_engine_cost import built


def how(folder: Path, words: str) -> Speculative | None:
    cost = built(folder, f"{{engine: vllm, {words}}}").cost
    assert isinstance(cost, EngineCost)
    return cost.speculative


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("speculative: {method: mtp, num_speculative_tokens: 3}", Speculative(3)),
        ("speculative: {method: deepseek_mtp, num_speculative_tokens: 1}", Speculative(1)),
        ("speculative: {algorithm: NEXTN, num_steps: 3, eagle_topk: 1, num_draft_tokens: 4}", Speculative(3)),
        ("speculative: {speculative_algorithm: EAGLE, speculative_num_steps: 3}", Speculative(3)),
        (
            "speculative: {algorithm: EAGLE3, num_steps: 5, eagle_topk: 4, num_draft_tokens: 16, draft_model_path: a}",
            Speculative(5, "eagle3", verified=16, name="a"),
        ),
        (
            "speculative: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 5, acceptance: 0.5}",
            Speculative(4, "ngram", 0.5),
        ),
        (
            "speculative: {model: llama-3.2-1b, method: draft_model, num_speculative_tokens: 4}",
            Speculative(4, "draft_model", draft=model("llama-3.2-1b"), name="llama-3.2-1b"),
        ),
        ("drafts: 3", Speculative(3)),
        ("drafts: 2, acceptance: 0.8", Speculative(2, acceptance=0.8)),
        ('version: "0.14"', None),
    ],
)
def test_spellings(tmp_path: Path, words: str, meant: Speculative | None) -> None:
    assert how(tmp_path, words) == meant


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("speculative: {method: mtq, num_speculative_tokens: 3}", r"yaml:4: cost.speculative.method: 'mtq' must be"),
        ("speculative: {method: mtp}", r"yaml:4: cost.speculative.num_speculative_tokens: "),
        ("speculative: {method: draft_model, num_speculative_tokens: 3}", r"cost.speculative: lacks model"),
        (
            "speculative: {method: draft_model, num_speculative_tokens: 3, model: llame}",
            r"cost.speculative: .*not built in",
        ),
        (
            "speculative: {num_steps: 3, num_draft_tokens: 2}",
            r"cost.speculative: 2 verified tokens do not hold 3 drafts",
        ),
        ("speculative: {num_steps: 3}, drafts: 3", r"cost.speculative: stands beside drafts"),
        ("speculative: {num_steps: 3, depth: 2}", r"cost.speculative.depth: unknown key"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as raised:
        built(tmp_path, f"{{engine: vllm, {words}}}")
    assert "\n" not in str(raised.value)


def test_a_resolved_scenario_drafts_as_the_first_did(tmp_path: Path) -> None:
    words = (
        "{engine: vllm, speculative: {algorithm: EAGLE3, num_steps: 5, num_draft_tokens: 16, draft_model_path: a/b}}"
    )
    problem = built(tmp_path, words)
    write_yaml(resolved(problem), tmp_path / "again.yaml")
    assert build(load(tmp_path / "again.yaml")).cost == problem.cost


def test_steps_bring_what_was_measured_of_the_family(tmp_path: Path) -> None:
    problem = built(tmp_path, "{engine: vllm, speculative: {method: eagle3, num_speculative_tokens: 3}}")
    estimator = problem.cost.build(problem.cluster.pools[0])
    tokens = acceptance("meta-llama/Llama-3.1-70B", "eagle3", 3).tokens
    assert estimator.describe()["tokens_a_step"] == tokens
    plain = EngineCost("vllm").build(problem.cluster.pools[0])
    assert plain.step(StepShape(1)).base / tokens < estimator.step(StepShape(1)).base < plain.step(StepShape(1)).base


def test_a_draft_model_costs_its_own_steps() -> None:
    pool = Pool(model("llama-3.1-70b"), device("H100"), tensor=4)
    small, large = (
        EngineCost("vllm", speculative=Speculative(4, "draft_model", 0.5, model(name)))
        .build(pool)
        .step(StepShape(8))
        .base
        for name in ("llama-3.2-1b", "llama-3.1-8b")
    )
    assert small < large
    with pytest.raises(UserError, match="needs the model that drafts"):
        EngineCost("vllm", speculative=Speculative(4, "draft_model")).build(pool)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("mtp:3", Speculative(3)),
        ("EAGLE3:4:a/b", Speculative(4, "eagle3", name="a/b")),
        ("nextn:1", Speculative(1)),
        ("draft_model:2:llama-3.2-1b", Speculative(2, "draft_model", draft=model("llama-3.2-1b"), name="llama-3.2-1b")),
    ],
)
def test_the_planners_option(text: str, meant: Speculative) -> None:
    assert read_speculative(text) == meant


@pytest.mark.parametrize("text", ["mtp", "mtp:0", "mtp:33", "medusa:3", "draft_model:3", "mtp:x", ""])
def test_mistakes_in_the_option(text: str) -> None:
    with pytest.raises(UserError, match="--speculative"):
        read_speculative(text)


def test_flags_of_engines_read_back_as_the_same() -> None:
    """What is deployed is what was simulated."""
    assert set(ALGORITHMS) == set(get_args(Method))
    for text in ("mtp:3", "eagle3:4:a/b", "ngram:5", "dspark:5"):
        cost = EngineCost("vllm", speculative=read_speculative(text))
        assert cost.speculative is not None
        name, value = for_vllm(cost)
        assert name == "--speculative-config" and flags(json.loads(value)) == cost.speculative.section()
        words = for_sglang(cost)
        pairs = {key.removeprefix("--"): word for key, word in zip(words[::2], words[1::2], strict=True)}
        read = flags({key: int(word) if word.isdecimal() else word for key, word in pairs.items()})
        assert read == cost.speculative.section()
    assert for_vllm(EngineCost("vllm")) == for_sglang(EngineCost("sglang")) == []
    with pytest.raises(UserError, match="needs a checkpoint"):
        for_vllm(EngineCost("vllm", speculative=Speculative(3, "eagle3")))
