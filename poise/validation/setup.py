"""The setup of a run of InferenceX, beyond its result file: flags of its scripts, and the layout of its day."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poise.core.model import Model
from poise.core.spec import Device, Format
from poise.validation.layouts import Layout, Run, layouts_of
from poise.validation.recipes import PLAIN, Recipe, recipe_for
from poise.validation.row import Row

_INFERENCEX = re.compile(r"\bdump 20\d\d-")
_DAY = re.compile(r"\bmeasured (20\d\d-\d\d-\d\d)")
_WORKERS = re.compile(r"(prefill|decode) workers=(\d+) ")


@dataclass(frozen=True, slots=True)
class Setup:
    """recipe: what its script sets.  layout: what its configuration has, None where that is not known for sure.

    attention_dp: attention's ranks of its one pool have requests of their own.
    """

    recipe: Recipe = PLAIN
    layout: Layout | None = None
    attention_dp: bool = False


UNKNOWN = Setup()


def of_inferencex(row: Row) -> bool:
    """Whether a row comes from a dump of InferenceX's results."""
    return _INFERENCEX.search(row.notes) is not None


def setup_of(row: Row, model: Model, device: Device, weights: Format, clients: int) -> tuple[Setup, tuple[str, ...]]:
    """The setup of the run of `row`, and what that assumes; the engine's defaults for all that is not InferenceX."""
    if not of_inferencex(row):
        return UNKNOWN, ()
    day = found[1] if (found := _DAY.search(row.notes)) else ""
    lengths = int(row.prompt), int(row.output)
    layout = _layout(row, Run(row.engine, model.name, device.name, weights, row.version, day, *lengths, clients))
    lines = []
    if layout is not None and row.disagg:
        lines.append("the layout is that of InferenceX's configuration for such a run")
    if layout is not None and layout.drafts:
        lines.append(f"{layout.drafts} tokens drafted a step, as InferenceX's configuration for such a run says")
    if row.disagg:
        return Setup(layout=layout), tuple(lines)
    shared = layout is not None and layout.decode.shared
    recipe = recipe_for(
        row.engine, model.name, device.name, weights, day=day, prompt=row.prompt, clients=clients, tensor=_ranks(row)
    )
    if recipe != PLAIN:
        lines.append("flags of InferenceX's script for such a run")
    return Setup(recipe, layout, shared), tuple(lines)


def _ranks(row: Row) -> int:
    return max(row.tensor, 1) * max(row.data, 1)


def _layout(row: Row, run: Run) -> Layout | None:
    """The one layout that fits the row; where drafting is all that differs, the one without, and where what
    its workers admit is, nothing is known of that.

    Sources write the devices of a decode worker as its degree, or those of all workers together.
    """
    stated = {side: int(count) for side, count in _WORKERS.findall(row.notes)}
    fitting = []
    for each in layouts_of(run):
        sides = [side for side in (each.prefill, each.decode) if side is not None]
        devices = sum(side.workers * side.ranks for side in sides)
        if (each.prefill is not None) != row.disagg or min(side.ranks for side in sides) < 2:
            continue  # the other kind of run, or degrees that the configuration left open
        if _ranks(row) not in (each.decode.ranks, devices) or (row.devices and row.disagg and devices != row.devices):
            continue
        if stated and stated != {"prefill": sides[0].workers, "decode": each.decode.workers}:
            continue
        fitting.append(each)
    plain = [each for each in fitting if not each.drafts] or fitting
    if len(plain) > 1:
        plain = list(dict.fromkeys(each.unlimited for each in plain))
    return plain[0] if len(plain) == 1 else None
