"""What loosely named devices, formats and scenarios of published measurements are taken to be, and why."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.catalogue.names import key
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Device, Format

_DATA = Path(__file__).with_name("assumptions.json")

_BRACKETS = re.compile(r"\s*[(\[].*$")
_TAILS = re.compile(
    r"[-_ ](99(\.\d+)?|edge|interactive|server|offline|quark|dyn|trtllm|vllm|awq|gptq|instruct|chat|hf"
    r"|(nv|mx)?fp\d\w*|w\d+a\d+\w*|int\d\w*|bf16|fp16)$",
    re.IGNORECASE,
)
_FORMATS: tuple[tuple[str, Format], ...] = (
    (r"(nv|mx)?fp4|w4a4|e2m1", "fp4"),
    (r"u?int4|int4_?wo|w4a(8|16)|awq|gptq|q4", "int4"),
    (r"int8|w8a8|sq", "int8"),
    (r"fp8\w*|e4m3|f8", "fp8"),
    (r"(bf16|fp16|f16|half|bfloat16|float16)( mixed)?", "bf16"),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The load of one benchmark set: mean tokens, and the limits that its server and interactive scenarios set."""

    name: str
    prompt: float
    output: float
    ttft_s: float
    tpot_s: float
    interactive_ttft_s: float
    interactive_tpot_s: float
    why: str


@dataclass(frozen=True, slots=True)
class NamedLoad:
    """A workload that a source names: stages of so many seconds at these rates, mean tokens, prompts that recur.

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
    bare = _BRACKETS.sub("", name)
    found = device(bare)
    return found, "" if bare == name else f"device {name}: {found.name}"


def named_model(name: str) -> tuple[Model, str]:
    """The model behind a loose name: tails that name a format, a benchmark or a tuning do not change its shape."""
    bare = _BRACKETS.sub("", name).replace("_", "-") if "/" not in name else _BRACKETS.sub("", name)
    for spelling in _spellings(bare):
        try:
            found = model(spelling)
        except UserError:
            continue
        return found, ""
    return model(name), ""


def _spellings(name: str) -> list[str]:
    """`name`, then with one more tail off each time, each also with its parts that a slash joins."""
    found = [name]
    while _TAILS.search(found[-1]):
        found.append(_TAILS.sub("", found[-1]))
    found += [re.sub(r"^llama-?v(\d)", r"llama-\1", each, flags=re.IGNORECASE) for each in found]
    first = re.fullmatch(r"llama-?(\d+b)", found[0], re.IGNORECASE)  # the size tells the generation
    return [*found, f"llama-1-{first[1]}", f"llama-2-{first[1]}"] if first else found


def named_format(name: str, default: Format = "bf16") -> tuple[Format, str]:
    """The format of weights or KV values behind a loose name, and what was assumed."""
    wanted = name.strip().lower()
    for pattern, found in _FORMATS:
        if re.fullmatch(pattern, wanted):
            return found, ""
    for row in _table()["precisions"]:
        if row["named"] == wanted or not wanted:
            return default, f"precision {name or 'not stated'}: {default}, {row['why']}"
    raise UserError(f"precision {name!r} is not known; known are bf16, fp16, fp8, int8, int4, fp4 and their variants")


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


def scenario_of(found: Model) -> Scenario | None:
    """The MLPerf load of the model `found`; None where it has none."""
    for row in _table()["scenarios"]:
        if any(_shape(model(name)) == _shape(found) for name in row["models"]):
            figures = {name: row[name] for name in Scenario.__slots__ if name in row}
            return Scenario(name=row["set"], **figures)
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
