"""The rotary embedding of a `config.json`: `rope_theta` and `rope_scaling`, or both in `rope_parameters`."""

from __future__ import annotations

from collections.abc import Mapping

from poise.catalogue.config import Config
from poise.runtime.models.shape import Rope

KINDS = ("default", "linear", "llama3", "yarn")


def number(config: Config, name: str, default: float, *, most: float = float("inf")) -> float:
    """The number `name`, not negative."""
    value = config.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise config.fault(name, "a number of at least 0 is needed" + (f", at most {most:g}" if most < 1e9 else ""))
    return float(value)


def rope(config: Config) -> Rope:
    """The rotary embedding."""
    key = "rope_parameters" if config.get("rope_parameters") is not None else "rope_scaling"
    found = config.get(key) or {}
    if not isinstance(found, Mapping):
        raise config.fault(key, "an object is needed")
    inner = Config(found, f"{config.where}: {key}")
    kind = inner.string("rope_type") or inner.string("type") or "default"
    if kind not in KINDS:
        raise config.fault(key, f"its rope_type must be one of {', '.join(KINDS)}", "give a model with one of them")
    theta = number(inner, "rope_theta", number(config, "rope_theta", 10_000.0))
    if number(inner, "partial_rotary_factor", number(config, "partial_rotary_factor", 1.0)) != 1.0:
        raise config.fault(key, "partial_rotary_factor must be 1", "give a model whose whole heads rotate")
    if kind == "default":
        return Rope(theta)
    original = inner.whole(
        "original_max_position_embeddings", default=config.whole("max_position_embeddings", default=2048)
    )
    amplitude = number(inner, "attention_factor", 0.0) or None
    return Rope(
        theta, kind, number(inner, "factor", 1.0), original, number(inner, "low_freq_factor", 1.0),
        number(inner, "high_freq_factor", 4.0), number(inner, "beta_fast", 32.0) or 32.0,
        number(inner, "beta_slow", 1.0) or 1.0, amplitude, number(inner, "mscale", 0.0),
        number(inner, "mscale_all_dim", 0.0),
    )  # fmt: skip
