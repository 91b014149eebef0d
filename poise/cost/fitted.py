"""The fitted recipe: step costs of one engine as straight lines, their slopes taken from a recording of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any

from poise.core.errors import ScenarioError
from poise.core.estimate import Piece, StepShape
from poise.core.power import cap_of
from poise.core.spec import BITS, Pool
from poise.core.units import ps
from poise.cost.layout import swap
from poise.cost.saved import load_saved

KIND = "fitted step cost"
SCHEMA = 1

COEFFICIENTS = ("step_s", "prompt_token_s", "pair_s", "sequence_s", "kv_token_s")
"""In the order of the columns that calibration fits them by."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A step takes `step_s`, plus `prompt_token_s` for each prompt token computed, `pair_s` for each query
    and key of theirs that meet, `sequence_s` for each decoding request, `kv_token_s` for each KV token that decodes
    read. Seconds, none negative.

    about: where they come from and how good they are (`recordings.calibrate`), for provenance.
    """

    step_s: float
    prompt_token_s: float
    pair_s: float = 0.0
    sequence_s: float = 0.0
    kv_token_s: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def build(self, pool: Pool) -> FittedEstimator:
        """The estimator of one pool; ScenarioError for one whose device is shared by several lanes
        or capped."""
        if any(lane.share < 1 for lane in pool.engine.lanes):
            raise ScenarioError(
                "pool.engine.lanes share the device, and a fitted cost knows one lane; take the roofline"
            )
        if cap_of(pool) < 1:
            raise ScenarioError("pool.power_cap_w: a fitted cost knows the clocks of its recording alone; leave it out")
        return FittedEstimator(self, pool)

    @property
    def coefficients(self) -> dict[str, float]:
        """The numbers by name."""
        return {name: getattr(self, name) for name in COEFFICIENTS}


class FittedEstimator:
    """One pool's step costs (`poise.core.estimate.Estimator`) in picoseconds, each coefficient rounded once.

    A chunk that passes only some layers costs their share of its tokens and pairs.
    """

    __slots__ = ("_kv", "_pair", "_prompt", "_recipe", "_sequence", "_step", "pool", "window")

    def __init__(self, recipe: Fitted, pool: Pool) -> None:
        self.pool = pool
        self.window = 0
        self._recipe = recipe
        self._step, self._sequence, self._kv = ps(recipe.step_s), ps(recipe.sequence_s), ps(recipe.kv_token_s)
        self._prompt, self._pair = recipe.prompt_token_s * 1e12, recipe.pair_s * 1e12

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, valid for any context."""
        decodes, chunks, _ = shape
        base = self._step + self._sequence * decodes
        if chunks:
            work = 0.0
            for tokens, context, first, last in chunks:
                part = (last - first) / self.pool.model.layers if last else 1.0
                pairs = tokens * context + tokens * (tokens + 1) // 2
                work += part * (self._prompt * tokens + self._pair * pairs)
            base += round(work)
        return Piece(max(base, 1), self._kv)

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV cache of one request, by the model's shape."""
        return self.pool.model.kv_bytes(tokens, BITS[self.pool.kv])

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds over all devices' PCIe links at once; ScenarioError where no bandwidth is stated."""
        return swap(self.pool, kv_bytes, runs)

    def describe(self) -> dict[str, object]:
        """The coefficients in seconds and where they come from."""
        return {"estimator": "fitted", **asdict(self._recipe)}


def save_fitted(cost: Fitted, path: str | Path) -> None:
    """Write a recipe as JSON, for `cost: {fitted: FILE}` of a scenario."""
    saved = {"kind": KIND, "schema": SCHEMA, "coefficients": cost.coefficients, **cost.about}
    Path(path).write_text(json.dumps(saved, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def load_fitted(path: str | Path) -> Fitted:
    """Read a recipe back; ScenarioError for a file that holds none."""
    cure = "give a file that `poise calibrate` wrote"
    saved = load_saved(path, KIND, SCHEMA, "is no fitted cost", cure)
    numbers = saved.pop("coefficients", None)
    known = {each.name for each in fields(Fitted)} - {"about"}
    if not isinstance(numbers, dict) or set(numbers) - known or {"step_s", "prompt_token_s"} - set(numbers):
        raise ScenarioError(f"{path}: its coefficients are not {', '.join(COEFFICIENTS)}; {cure}")
    for name, value in numbers.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not (isfinite(value) and value >= 0):
            raise ScenarioError(f"{path}: coefficients.{name}: {value!r} must be a number of at least 0; {cure}")
    return Fitted(**numbers, about=saved)
