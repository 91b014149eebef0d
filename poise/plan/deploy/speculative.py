"""Speculative decoding as flags of engines."""

from __future__ import annotations

import json
from typing import Final

from poise.core.errors import UserError
from poise.scenario.cluster import Recipe
from poise.scenario.engine_cost import EngineCost, Speculative

ALGORITHMS: Final = {
    "mtp": "NEXTN", "eagle": "EAGLE", "eagle3": "EAGLE3", "ngram": "NGRAM", "draft_model": "STANDALONE",
    "dspark": "DSPARK",
}  # fmt: skip
"""SGLang's `--speculative-algorithm` for each method."""

OWN: Final = ("mtp", "ngram", "dspark")
"""Methods that need no other checkpoint."""


def for_vllm(cost: Recipe) -> list[str]:
    """`--speculative-config …`, or nothing where nothing is drafted."""
    how = _stated(cost)
    if how is None:
        return []
    given: dict[str, object] = {"method": how.method, "num_speculative_tokens": how.drafts}
    if how.name:
        given["model"] = how.name
    return ["--speculative-config", json.dumps(given, separators=(",", ":"))]


def for_sglang(cost: Recipe) -> list[str]:
    """`--speculative-algorithm …` and what belongs to it, or nothing."""
    how = _stated(cost)
    if how is None:
        return []
    words = ["--speculative-algorithm", ALGORITHMS[how.method], "--speculative-num-steps", str(how.drafts)]
    words += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(how.verified or how.drafts + 1)]
    return words + (["--speculative-draft-model-path", how.name] if how.name else [])


def _stated(cost: Recipe) -> Speculative | None:
    """What drafts; UserError where its checkpoint is not named."""
    how = cost.speculative if isinstance(cost, EngineCost) else None
    if how is not None and how.method not in OWN and not how.name:
        raise UserError(
            f"{how.method} needs a checkpoint that drafts; name it, as in --speculative {how.method}:{how.drafts}:NAME"
        )
    return how
