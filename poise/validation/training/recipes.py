"""What public recipes state of runs whose tables are silent: `recipes.json`, which `bench/recipes.py` writes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from poise.validation.training.words import operations_of

FILE = Path(__file__).with_name("recipes.json")
HOSTS = {"none": "launched", "parts": "", "iteration": "captured"}
"""Software whose figures apply, by what CUDA graphs capture: nothing, attention and the router, or whole iterations.
The all-to-all dispatcher waits on the host for the counts of tokens, so that captured parts do not help it."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a release does with a model on a device: operations computed again, whether tokens cross once for all of
    their experts, whether exchanges run beside compute, and the software whose figures apply."""

    operations: tuple[str, ...]
    once: bool
    paired: bool
    host: str


def version(text: str) -> Version | None:
    """The release that a table's name begins with, as in `26.02.01 NeMo Container`."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(each or 0) for each in found.groups()) if found else None


def recipe(release: Version, model: str, device: str, precision: str) -> Recipe | None:
    """The newest recipe that is not newer than the release; None where there is none."""
    own = [(since, each) for since, key, each in _recipes() if key == (model, device, precision) and since <= release]
    return max(own, key=lambda each: each[0])[1] if own else None


@lru_cache(maxsize=1)
def _recipes() -> tuple[tuple[Version, tuple[str, str, str], Recipe], ...]:
    saved = json.loads(FILE.read_text(encoding="utf-8"))["recipes"]
    return tuple(
        (version(since) or (), (model, device.split("-")[0], precision), _recipe(facts))
        for since, model, device, precision, facts in saved
    )


def _recipe(facts: dict[str, object]) -> Recipe:
    named = facts["recompute"]
    assert isinstance(named, list)
    once = facts["dispatcher"] != "alltoall"
    host = HOSTS[str(facts["graphs"]) if once else "none"]
    return Recipe(operations_of(" ".join(named)), once, bool(facts["overlap"]), host)
