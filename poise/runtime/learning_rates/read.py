"""A schedule by its written form, as `cosine`, `wsd:decay=0.1,shape=linear` or `refined:norms=metrics.jsonl`."""

from __future__ import annotations

from pathlib import Path

from poise.core.errors import UserError
from poise.runtime.learning_rates.cosine import Cosine
from poise.runtime.learning_rates.linear import Linear
from poise.runtime.learning_rates.rate import Constant, Rate
from poise.runtime.learning_rates.refined import norms_of, refined
from poise.runtime.learning_rates.uba import Uba
from poise.runtime.learning_rates.wsd import Wsd

OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": (), "linear": ("end",), "cosine": ("end",), "wsd": ("decay", "shape", "end"), "uba": ("phi", "end"),
    "refined": ("norms", "smoothing"),
}  # fmt: skip
"""By name of the schedule."""

NORMS = {"adamw": ("gradient_l1", 1), "sgd": ("gradient_l2", 2)}
"""For each optimizer the column of metrics, and the power, that refinement uses."""


def read_rate(text: str, optimizer: str) -> Rate:
    """The schedule that `text` names; UserError for what it cannot be."""
    name, _, rest = text.partition(":")
    if name not in OPTIONS:
        raise _fault(text, f"there is no such schedule; give one of {', '.join(OPTIONS)}")
    given = {key: value for key, _, value in (item.partition("=") for item in rest.split(",") if item)}
    for key in given:
        if key not in OPTIONS[name]:
            known = ", ".join(OPTIONS[name]) or "none"
            raise _fault(text, f"{name} has no setting {key}; its settings are: {known}")
    end = _number(text, given, "end", 0.0, most=1.0)
    if name == "linear":
        return Linear(end)
    if name == "cosine":
        return Cosine(end)
    if name == "uba":
        return Uba(_number(text, given, "phi", 1.0, above=True), end)
    if name == "wsd":
        shape = given.get("shape", "sqrt")
        if shape not in ("sqrt", "linear"):
            raise _fault(text, f"shape {shape} is not known; give sqrt or linear")
        return Wsd(_number(text, given, "decay", 0.2, most=1.0, above=True), shape, end)
    return _refined(text, given, optimizer) if name == "refined" else Constant()


def _refined(text: str, given: dict[str, str], optimizer: str) -> Rate:
    if not given.get("norms"):
        raise _fault(text, "it needs the metrics of a run before; give refined:norms=metrics.jsonl")
    key, power = NORMS[optimizer]
    smoothing = _number(text, given, "smoothing", 0.1, most=1.0)
    return refined(norms_of(Path(given["norms"]), key), power, smoothing)


def _number(
    text: str, given: dict[str, str], key: str, default: float, *, most: float = float("inf"), above: bool = False
) -> float:
    try:
        value = float(given.get(key, default))
    except ValueError:
        value = -1.0
    if not (value > 0 if above else value >= 0) or value > most:
        least = "above 0" if above else "of at least 0"
        raise _fault(text, f"{key} must be a number {least}" + (f" and at most {most:g}" if most < 1e9 else ""))
    return value


def _fault(text: str, rule: str) -> UserError:
    return UserError(f"--lr-schedule {text}: {rule}")
