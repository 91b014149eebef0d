"""Measured acceptance: curves never fall, families find their own, and the rule is scored without the model itself."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poise.catalogue.drafts import acceptance, at_depth, left_out_error, measured
from poise.catalogue.models import models

METHODS = ("mtp", "eagle", "eagle3", "dspark", "ngram", "draft_model")


def test_curves_rise_and_stay_within_what_a_pass_can_bring() -> None:
    for each in measured():
        for depth, (before, after) in enumerate(pairwise((1.0, *each.tokens)), 1):
            assert before <= after <= depth + 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-R1", "Qwen/Qwen3.5-397B-A17B", "llama-3.1-8b", ""])
def test_more_drafts_bring_no_fewer_tokens(method: str, name: str) -> None:
    tokens = [acceptance(name, method, depth).tokens for depth in range(33)]  # type: ignore[arg-type]
    assert tokens[0] == 1.0 and tokens == sorted(tokens)
    gains = [after - before for before, after in pairwise(tokens)]
    assert gains[8:] == sorted(gains[8:], reverse=True)  # beyond what was measured they shrink


def test_a_measured_model_has_its_own_curve() -> None:
    for each in measured():
        if each.method == "mtp":
            found = acceptance(each.model, "mtp", 3)
            assert found.tokens == at_depth(each.tokens, 3) and each.model in found.basis
    assert acceptance("deepseek-ai/DeepSeek-R1", "mtp", 3).tokens == 2.49
    assert "median" in acceptance("llama-3.1-8b", "mtp", 3).basis


def test_every_built_in_model_has_an_answer() -> None:
    for each in models():
        assert 1 < acceptance(each.name, "eagle3", 3).tokens < 4


@pytest.mark.parametrize(
    ("method", "depth", "percent"), [("mtp", 1, 5), ("mtp", 3, 17), ("eagle3", 3, 3), ("dspark", 3, 5)]
)
def test_models_left_out(method: str, depth: int, percent: float) -> None:
    """The figures in docs/costs.md."""
    assert 0 < left_out_error(method, depth) < percent / 100  # type: ignore[arg-type]
