"""Models of tables of training runs: the catalogue's by loose names, others by the shapes that their papers state."""

from __future__ import annotations

import re
from functools import cache

from poise.catalogue.models import loose_model
from poise.core.model import Linear, Model, Moe
from poise.cost.training import shape
from poise.validation.training.read import Row
from poise.validation.training.words import SilentError, whole

ALSO = {
    "qwen3 moe 30b": "Qwen3-30B-A3B", "qwen3 30b": "Qwen3-30B-A3B", "qwen3 235b": "Qwen3-235B-A22B",
    "llama2 70b": "Llama-2-70b-hf", "kimi k2": "Kimi-K2", "deepseek v3 671b": "DeepSeek-V3",
    "mixtral 8x7b 32k": "Mixtral-8x7B-v0.1",
}  # fmt: skip
"""Names of tables that leave out a part of the catalogue's."""


@cache
def _published() -> dict[str, Model]:
    """Shapes of papers and of public training configurations, by the words of their names."""
    gpt = {"vocab": 51200, "name": "GPT"}
    nano = Model(
        "Nemotron 3 Nano", layers=29, hidden=2688, heads=32, kv_heads=2, head_dim=128, vocab=131072, ffn=0,
        max_context=262144, gated=False, linear_layers=23, moe=Moe(128, 6, 1856, 23, 1, 3712),
        linear=Linear(key_heads=8, value_heads=64, key_dim=128, value_dim=64), source="arXiv 2512.20848",
    )  # fmt: skip
    folded = loose_model("Mixtral-8x22B")
    assert folded is not None and folded.moe is not None
    return {
        "gpt 3 175b": shape(96, 12288, 96, **gpt),  # type: ignore[arg-type]
        "gpt3 175b": shape(96, 12288, 96, **gpt),  # type: ignore[arg-type]
        "gpt3 5b": shape(24, 4096, 32, **gpt),  # type: ignore[arg-type]
        "gpt3 20b": shape(44, 6144, 48, **gpt),  # type: ignore[arg-type]
        "nemotron 8b": shape(32, 4096, 32, vocab=256000, tied=False, name="Nemotron-8B"),
        "nemotron 15b": shape(32, 6144, 48, kv_heads=8, vocab=256000, tied=False, name="Nemotron-15B"),
        "nemotron 22b": shape(40, 6144, 48, vocab=256000, tied=False, name="Nemotron-22B"),
        "mixtral 8x22b g8t8": _grained(folded),
        "nemotron 3 nano": nano,
        "nemotron v3 nano": nano,
        "nemotron 3 nano 30b": nano,
        "nemotron v3 nano 30b": nano,
        "llama3 8x70b": _upcycled("Llama-3-70B", 8, 2),
    }


def _grained(model: Model) -> Model:
    """The upcycled Mixtral of arXiv 2504.14960: each expert in eight, eight of 64 active."""
    from dataclasses import replace

    assert model.moe is not None
    moe = replace(model.moe, experts=64, active=8, ffn=model.moe.ffn // 8)
    return replace(model, name="Mixtral-8x22B-G8T8", moe=moe)


def _upcycled(name: str, experts: int, active: int) -> Model:
    """A dense model each of whose blocks became `experts` copies."""
    from dataclasses import replace

    model = loose_model(name)
    assert model is not None
    return replace(model, name=f"{name} x {experts}", moe=Moe(experts, active, model.ffn, model.layers))


def model_of(row: Row) -> Model:
    """The model of a row: by its shape where that is stated, else by its name; SilentError for an unknown one."""
    if row["layers"] and row["hidden"] and row["heads"]:
        return _stated(row)
    name = re.sub(r"\s*\(.*?\)|[ _-]lora\b|[ _-]\d+-node", "", row["model"], flags=re.IGNORECASE).strip()
    words = re.sub(r"[-_ ]+", " ", name).lower()
    found = _published().get(words) or loose_model(ALSO.get(words, name))
    if found is None:
        raise SilentError(f"the shape of {row['model'] or 'the model'} is not in the catalogue")
    return found


def _stated(row: Row) -> Model:
    """A model by its columns; a feed-forward width other than four times the hidden one is a gated block's."""
    layers, hidden, heads, ffn = (whole(row, name, 0) for name in ("layers", "hidden", "heads", "ffn"))
    gated = ffn not in (0, 4 * hidden)
    return shape(
        layers, hidden, heads, ffn=ffn, kv_heads=whole(row, "kv_heads", 0), vocab=whole(row, "vocab", 51200),
        gated=gated, tied=not gated, experts=whole(row, "experts", 0), active=whole(row, "experts_active", 0),
        name=row["model"],
    )  # fmt: skip
