"""Which terms of a cost can be combined, and in which order, by what each of them declares.

`poise.cost.term.Term` lists the declarations. The rules name no term.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from poise.core.errors import ScenarioError

TAKEN = {
    "prompts": "how prompts are computed",
    "decodes": "what a decode computes",
    "layout": "what each device does",
    "KV": "how much KV is kept, and where",
}
"""What a term may take into its own hands."""


def check_terms(terms: Sequence[object]) -> None:
    """Raise ScenarioError for two terms that exclude one another, or whose order lets one of them go unheard."""
    for one, two in combinations(terms, 2):
        _check_apart(one, two)
        _check_order(one, two)


def _check_apart(one: object, two: object) -> None:
    """Neither order would do."""
    names = f"{type(one).__name__} and {type(two).__name__}"
    both = sorted({*getattr(one, "hides", ())} & {*getattr(two, "hides", ())})
    if both:
        raise ScenarioError(f"terms {names} both hide the time of {', '.join(both)}; keep one of them")
    taken = [text for part, text in TAKEN.items() if part in _takes(one) and part in _takes(two)]
    if taken:
        raise ScenarioError(f"terms {names} both say {' and '.join(taken)}; keep one of them")
    for over, other in ((one, two), (two, one)):
        if hasattr(over, "over") and _drops(over, other):
            raise ScenarioError(f"terms {names}: {_lost(over, other)}; keep one of them")


def _check_order(one: object, two: object) -> None:
    """The other order would do."""
    before, behind = type(one).__name__, type(two).__name__
    if hasattr(one, "over"):
        raise ScenarioError(f"term {before} asks the others for pools of its own; name it last, behind {behind}")
    if getattr(two, "first", False):
        raise ScenarioError(f"term {behind} asks for no step of what it is around; name it first, before {before}")
    if _drops(two, one):
        raise ScenarioError(f"terms {before} and {behind}: {_lost(two, one)}; name {behind} first")
    if getattr(two, "hides", ()) and _takes(one) & {"prompts", "decodes"}:
        raise ScenarioError(
            f"term {behind} counts the work of whole steps, which {before} changes; name {behind} first"
        )


def _takes(term: object) -> set[str]:
    return {*getattr(term, "takes", ())}


def _drops(one: object, two: object) -> bool:
    """Whether `one`, applied later, counts again KV blocks that `two` has counted."""
    return "KV" in _takes(one) and hasattr(two, "held")


def _lost(one: object, two: object) -> str:
    """What would come of that."""
    return f"{type(one).__name__} counts KV blocks by itself, without what {type(two).__name__} takes of them"
