"""The fitted step cost: the straight lines it says it is, and a file that scenarios name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import Engine, Lane, Pool
from poise.core.units import ps
from poise.cost import Fitted, Roofline
from poise.cost.fitted import load_fitted, save_fitted

POOL = Pool(model("llama-3.1-8b"), device("H100"))
LINES = Fitted(0.008, 30e-6, 4e-9, 2e-4, 40e-9)

seconds = st.floats(0, 1, allow_nan=False)
recipes = st.builds(Fitted, seconds, seconds, seconds, seconds, seconds)


def test_a_step_is_the_sum_of_its_parts() -> None:
    made = LINES.build(POOL)
    assert made.step(StepShape(0)) == Piece(ps(0.008), ps(40e-9))
    assert made.step(StepShape(5)).base == ps(0.008) + 5 * ps(2e-4)
    chunks = (Chunk(100, 50), Chunk(10, 0))
    pairs = 100 * 50 + 100 * 101 // 2 + 10 * 11 // 2
    assert made.step(StepShape(5, chunks)).base == ps(0.008) + 5 * ps(2e-4) + ps(110 * 30e-6 + pairs * 4e-9)
    assert made.window == 0


def test_layer_ranges_cost_their_share() -> None:
    made, layers = LINES.build(POOL), POOL.model.layers
    whole = made.step(StepShape(0, (Chunk(64, 10),))).base
    parts = [made.step(StepShape(0, (Chunk(64, 10, first, first + layers // 2),))).base for first in (0, layers // 2)]
    assert sum(parts) - ps(0.008) == pytest.approx(whole, abs=2)


def test_memory_is_that_of_the_model() -> None:
    assert LINES.build(POOL).kv_bytes(1000) == Roofline().build(POOL).kv_bytes(1000)
    assert LINES.build(POOL).swap(10**9) == Roofline().build(POOL).swap(10**9)


def test_shared_devices_are_refused() -> None:
    lanes = (Lane("a", True, False, 0.5), Lane("b", False, True, 0.5))
    with pytest.raises(ScenarioError, match="knows one lane"):
        LINES.build(Pool(model("llama-3.1-8b"), device("H100"), engine=Engine(lanes=lanes)))


@given(recipes)
def test_a_file_gives_the_same_numbers(tmp_path_factory: pytest.TempPathFactory, recipe: Fitted) -> None:
    path = tmp_path_factory.mktemp("cost") / "cost.json"
    save_fitted(recipe, path)
    assert load_fitted(path) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ("[]", "is no fitted cost"),
        ('{"kind": "other"}', "is no fitted cost"),
        ('{"kind": "fitted step cost", "schema": 9}', "its schema is not 1"),
        ('{"kind": "fitted step cost", "schema": 1}', "its coefficients are not step_s, prompt_token_s"),
        (None, "coefficients.pair_s: -1 must be a number of at least 0"),
    ],
)
def test_files_that_hold_no_cost(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    save_fitted(LINES, path)
    result: dict[str, Any] = json.loads(path.read_text())
    result["coefficients"]["pair_s"] = -1
    path.write_text(json.dumps(result) if text is None else text)
    with pytest.raises(ScenarioError, match=message):
        load_fitted(path)
    with pytest.raises(ScenarioError, match=r"none\.json: cannot be read"):
        load_fitted(tmp_path / "none.json")
