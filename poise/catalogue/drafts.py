"""How many tokens a pass of speculative decoding brings, by method, depth and model family, as it was measured.

`drafts.json` holds mean acceptance lengths by the number of drafts: those of InferenceX (SPEED-Bench's coding prompts,
4,096 output tokens, vLLM, B300; Apache-2.0), of which the ones with thinking on are used. Other prompts keep more or
fewer drafts: with thinking off the same models bring 0 to 25 % more tokens, or 4 to 7 % fewer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from poise.catalogue.names import key

Method = Literal["mtp", "eagle", "eagle3", "dspark", "ngram", "draft_model"]

_DATA = Path(__file__).with_name("drafts.json")

_CHANCE: dict[str, float] = {"ngram": 0.42, "draft_model": 0.57, "eagle": 0.73}
"""Chance that a draft is kept where no depths were measured, from mean tokens a pass on Spec-Bench, Vicuna-7B on A100:
prompt lookup 1.73 (10 drafts), a 68M draft model 2.28, EAGLE 3.61 (github:hemingkx/Spec-Bench@09244ff33257)."""

_LIKE: dict[str, tuple[Method, ...]] = {
    "mtp": ("mtp",), "eagle3": ("eagle3",), "dspark": ("dspark",), "eagle": (), "ngram": (), "draft_model": (),
}  # fmt: skip

_FAMILIES = ("deepseek", "glm", "qwen", "kimi", "minimax")


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured curve. tokens: of a pass with 1, 2, … drafts, the model's own included; never falling."""

    family: str
    model: str
    method: str
    tokens: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Acceptance:
    """tokens: what a pass brings in the mean.  basis: which measurements say so, in a few words."""

    tokens: float
    basis: str


def acceptance(model: str, method: Method, drafts: int, *, without: str = "") -> Acceptance:
    """What a pass with `drafts` proposals brings a request of the model `model` (a name in any spelling).

    The curve of the model's family and method, else the median of all families of the method, else a constant chance.
    without: a measured model that is left out, as in checks of the rule.
    """
    curves = [each for each in measured() if each.method in _LIKE[method] and each.model != without]
    family = family_of(model)
    own = [each for each in curves if each.family == family]
    chosen = own or curves
    if not chosen:
        chance = _CHANCE[method]
        return Acceptance(sum(chance**place for place in range(drafts + 1)), f"a chance of {chance:g} for each draft")
    basis = ", ".join(sorted({each.model for each in chosen}))
    tokens = median([at_depth(each.tokens, drafts) for each in chosen])
    return Acceptance(tokens, f"{method} of {basis}" if own else f"the median {method} of {basis}")


def at_depth(tokens: tuple[float, ...], drafts: int) -> float:
    """Tokens of a pass with `drafts` proposals; beyond the deepest measured, gains shrink as they did until there."""
    if drafts <= 0:
        return 1.0
    if drafts <= len(tokens):
        return tokens[drafts - 1]
    first, last = tokens[0] - 1, tokens[-1] - tokens[-2]
    shrink = float((last / first) ** (1 / (len(tokens) - 1)))
    return tokens[-1] + sum([last * float(shrink**step) for step in range(1, drafts - len(tokens) + 1)])


def family_of(model: str) -> str:
    """The family of a model's name; empty where none was measured."""
    name = key(model)
    return next((family for family in _FAMILIES if family in name), "")


@cache
def measured() -> tuple[Measured, ...]:
    """The curves with thinking on. A dip between two depths is noise, since a pass may ignore its last drafts."""
    rows = json.loads(_DATA.read_text(encoding="utf-8"))
    return tuple(
        Measured(row["family"], row["model"], row["method"], tuple(accumulate(row["tokens"], max)), row["source"])
        for row in rows
        if "thinking on" in row["workload"]
    )


def left_out_error(method: Method, depth: int) -> float:
    """Mean absolute relative error at a depth of the rule for each measured model of a method, by all others."""
    errors = []
    for each in measured():
        if each.method == method:
            others = acceptance("", method, depth, without=each.model).tokens
            errors.append(abs(others / at_depth(each.tokens, depth) - 1))
    return fmean(errors)
