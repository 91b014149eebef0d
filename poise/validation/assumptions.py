"""What loosely named devices, formats and scenarios of published measurements are taken to be, and why."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.devices import device
from poise.catalogue.models import loose_model, model, published_format
from poise.catalogue.names import key
from poise.catalogue.spelling import BRACKETS, device_words, format_named, uncounted
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import BITS, Device, Format

LEVELS = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)
"""Percentiles at which the lengths of a benchmark's set are kept."""

FOUR = 4.5
"""Bits of a weight up to which a format counts as one of four bits, scales included."""

_DATA = Path(__file__).with_name("assumptions.json")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The load of one benchmark set: its lengths, and the limits that its server and interactive scenarios set.

    prompt, output: mean tokens.  prompts, outputs: quantiles at `LEVELS`, of equal lengths where there are none.
    samples: how many the set has.
    """

    name: str
    prompt: float
    output: float
    ttft_s: float
    tpot_s: float
    interactive_ttft_s: float
    interactive_tpot_s: float
    why: str
    prompts: tuple[float, ...] = ()
    outputs: tuple[float, ...] = ()
    samples: int = 0


@dataclass(frozen=True, slots=True)
class NamedLoad:
    """A workload that a source names: stages in seconds and their rates, mean tokens, prompts that recur.

    system: tokens that the prompts of a group share.  groups, prompts: groups, and prompts of each, sent in turn.
    max_sequences: the engine's limit in all runs of the source.
    """

    name: str
    rates: tuple[float, ...]
    seconds: float
    prompt: float
    output: float
    system: int
    groups: int
    prompts: int
    max_sequences: int
    why: str


def named_device(name: str) -> tuple[Device, str]:
    """The device behind a loose name, and what was assumed ("" where nothing was); UserError where none is known."""
    for row in _table()["devices"]:
        if key(row["named"]) == key(name):
            return device(row["taken"]), f"device {name}: {row['taken']}, {row['why']}"
    for spelling in (name, uncounted(name), _remarked(uncounted(name))):
        try:
            found = device(spelling)
        except UserError:
            continue
        return found, "" if spelling == name else f"device {name}: {found.name}"
    return device(name), ""


def joined(source: str, device: Device, devices: int) -> tuple[Device, str]:
    """The device as the machines of a source join several of them over PCIe, and what was assumed."""
    for row in _table()["links"]:
        if source.startswith(row["source"]) and devices > 1 and device.scaleup_domain <= 1:
            return replace(device, pcie=row["pcie"]), f"PCIe: {row['pcie']}, {row['why']}"
    return device, ""


def _remarked(name: str) -> str:
    """`name` with only form and memory kept of a remark in brackets, because they distinguish devices."""
    bare = BRACKETS.sub("", name)
    inner = device_words(name[len(bare) :])
    return name if inner is None else f"{bare} {inner.form} {inner.memory_gb or ''}{'GB' if inner.memory_gb else ''}"


def named_model(name: str) -> Model:
    """The model behind a loose name: tails that name a format, a benchmark or a tuning do not change its shape."""
    return loose_model(name) or model(name)


def named_format(name: str, default: Format = "bf16") -> tuple[Format, str]:
    """The format of weights or KV values behind a loose name, and what was assumed."""
    wanted = BRACKETS.sub("", name.strip().lower())
    found = format_named(wanted)
    if found is not None:
        return found, ""
    for row in _table()["precisions"]:
        if row["named"] == wanted or not wanted:
            return default, f"precision {name or 'not stated'}: {default}, {row['why']}"
    raise UserError(f"precision {name!r} is not known; known are bf16, fp16, fp8, int8, int4, fp4 and their variants")


def held_format(model: Model, name: str, found: Format) -> tuple[Format, str]:
    """The format in which engines load `name` where `found` is stated, and what was assumed.

    A model that is published in four bits alone is not widened: FP8 or BF16 then names what its products compute in.
    """
    published = published_format(name)
    if BITS[published] > FOUR or BITS[found] <= FOUR or found in dict(model.checkpoints):
        return found, ""
    return published, f"precision {found}: {published}, no checkpoint of {name} in {found} is published"


def source_kv(source: str, name: str, device: Device) -> tuple[Format | None, str]:
    """The format of KV values that a source's own options state for a model, and where; None where they do not."""
    for row in _table()["kv"]:
        if source == row["source"] and row["model"] in name.lower() and re.match(row["device"], device.name):
            return row["taken"], f"KV values in {row['taken']}, {row['why']}"
    return None, ""


def narrowest(found: Device) -> tuple[Format, str]:
    """What MLPerf's submitters run where nothing is stated: the narrowest format that the device computes natively."""
    best: Format = "fp4" if found.fp4_flops > 0 else "fp8" if found.fp8_flops > 0 else "bf16"
    return best, f"precision not stated: {best}, the narrowest that {found.name} computes, as submitters choose"


def era_of(source: str, engine: str, version: str, notes: str) -> tuple[str, str]:
    """The engine version that is meant, and what was assumed: the stated one where no row of the table fits."""
    for row in _table()["eras"]:
        named = source.startswith(row["source"]) and key(engine).startswith(row["engine"])
        stated = re.match(row["stated"], version) if row["stated"] else not version
        if named and stated and re.search(row["notes"], notes):
            return row["version"], f"engine version {version or 'not stated'}: {row['version']}, {row['why']}"
    return version, ""


def meant_metric(source: str, metric: str, load: str) -> tuple[str, str]:
    """The metric that a row means, and what was assumed: the stated one where no row of the table fits."""
    for row in _table()["metrics"]:
        if (source, metric, load.lower()) == (row["source"], row["named"], row["load"]):
            return row["taken"], f"metric {metric}: {row['taken']}, {row['why']}"
    return metric, ""


def scenario_of(found: Model) -> Scenario | None:
    """The MLPerf load of the model `found`; None where it has none."""
    for row in _table()["scenarios"]:
        if any(_shape(model(name)) == _shape(found) for name in row["models"]):
            figures = {name: row[name] for name in Scenario.__slots__ if name in row}
            spread = {name: tuple(row.get(name, ())) for name in ("prompts", "outputs")}
            return Scenario(name=row["set"], **{**figures, **spread})
    return None


def load_named(source: str, name: str) -> NamedLoad | None:
    """What `source` publishes of its workload `name`; None where nothing is known."""
    for row in _table()["workloads"]:
        if source.startswith(row["source"]) and row["named"] == name:
            figures = {each: row[each] for each in NamedLoad.__slots__ if each in row}
            return NamedLoad(**{**figures, "name": name, "rates": tuple(row["rates"])})
    return None


def _shape(found: Model) -> tuple[int, ...]:
    return (found.layers, found.hidden, found.heads, found.vocab, found.moe.experts if found.moe else 0)


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table
