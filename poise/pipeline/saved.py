"""Costs of a pipeline as a file: the costs of a recorded step, for making and comparing schedules."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs

KIND = "poise pipeline costs"
CURE = "give what `poise calibrate` wrote from a recorded step"


def costs_text(costs: Costs, **about: str) -> str:
    """The file: every field that is not the default, numbers unchanged where decimals hold them; with `about`."""
    content: dict[str, Any] = {"kind": KIND, "schema": 1, **about}
    for field in fields(costs):
        value = getattr(costs, field.name)
        if value != field.default:
            content[field.name] = [_plain(each) for each in value] if isinstance(value, tuple) else _plain(value)
    return json.dumps(content, indent=1) + "\n"


UNITS = {"s": Fraction(1), "ms": Fraction(1, 1000), "us": Fraction(1, 1000000)}


def load_seconds(path: str | Path) -> Costs:
    """The costs in a file, in seconds; ScheduleError if it holds none, or no unit."""
    unit = _content(path).get("unit")
    if unit not in UNITS:
        raise ScheduleError(f"{path}: its unit is {unit!r}; give one of {', '.join(UNITS)}, as `poise calibrate` does")
    return load_costs(path).times(UNITS[unit])


def load_costs(path: str | Path) -> Costs:
    """The costs in a file, in its own unit; ScheduleError if it holds none."""
    content = _content(path)
    known = {field.name for field in fields(Costs)}
    try:
        return Costs.of(**{name: value for name, value in content.items() if name in known})
    except (ScheduleError, TypeError) as error:
        raise ScheduleError(f"{path}: {error}") from None


def _content(path: str | Path) -> dict[str, Any]:
    """What is in a file of costs."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScheduleError(f"{path}: cannot be read ({error.strerror}); {CURE}") from None
    except ValueError:
        raise ScheduleError(f"{path}: is no JSON; {CURE}") from None
    if not isinstance(content, dict) or (content.get("kind"), content.get("schema")) != (KIND, 1):
        raise ScheduleError(f"{path}: holds no costs of a pipeline, schema 1; {CURE}")
    return content


def _plain(value: Fraction | bool) -> float | str | bool:
    if isinstance(value, bool):
        return value
    return float(value) if Fraction(str(float(value))) == value else str(value)
