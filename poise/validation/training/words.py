"""What tables of training runs write: devices, precisions, recomputation, batches."""

from __future__ import annotations

import re

from poise.catalogue.devices import device
from poise.core.errors import UserError
from poise.core.spec import Device
from poise.cost.training.layout import ALTERNATE, CHEAP
from poise.validation.training.read import Row


class SilentError(Exception):
    """A condition that the source does not state."""


NAMED = re.compile(r"\(([A-Z]+\d+[\w-]*)\)")
"""A device's name in brackets behind its family's (`Blackwell GPU (B200-SXM-180GB)`)."""
CUSTOM = {"h100-96gb hbm2e": "H100-SXM-96GB-HBM2e"}
"""Devices by how the column begins, where form and memory alone do not tell them."""
MODULES = {
    "norm": "norm", "layernorm": "norm", "act": "activation", "moe_act": "activation", "activation": "activation",
    "mla_up_proj": "mla", "mla": "mla", "moe": "experts", "shared_expert": "shared", "shared_experts": "shared",
    "core_attn": "attention", "core_attention": "attention", "attention": "attention",
}  # fmt: skip
"""Operations by the names of Megatron-LM's `--recompute-modules` and of tables."""


def whole(row: Row, name: str, default: int | None = None) -> int:
    """A count; SilentError where it is not stated and there is no default."""
    text = row.get(name, "")
    if re.fullmatch(r"\d+(\.0+)?", text):
        return int(float(text))
    if default is not None:
        return default
    raise SilentError(f"{name} is not stated")


def noted(row: Row, pattern: str) -> int:
    """A count in the notes; 0 where there is none."""
    found = re.search(pattern, row.get("notes", ""), re.IGNORECASE)
    return next((int(each) for each in found.groups() if each), 0) if found else 0


def device_of(row: Row) -> Device:
    """The device that the column names, whatever is around its name; SilentError for an unknown one."""
    text = row["hardware"]
    if not text:
        raise SilentError("hardware is not stated")
    named = NAMED.search(text)
    first = text.split(",")[0].split(" (")[0].strip()
    for each in (*([named[1]] if named else []), text, first, *_shorter(first)):
        for words, name in CUSTOM.items():
            if each.lower().startswith(words):
                return device(name)
        try:
            return device(each)
        except UserError:
            continue
    raise SilentError(f"device {text!r} is not known")


def _shorter(name: str) -> list[str]:
    """The name with ever fewer of its last words."""
    words = name.split()
    return [" ".join(words[:count]) for count in range(len(words) - 1, 0, -1)]


def precision_of(row: Row, narrow: bool) -> tuple[str, bool]:
    """The job's precision, and whether the column states it; without, 8 bits where the device has them (`narrow`)."""
    text = row["precision"].lower()
    if not text:
        return ("fp8" if narrow else "bf16"), False
    if "fp4" in text:
        return "nvfp4", True
    if "mx" in text.split("(")[0] and "fp8" in text:
        return "mxfp8", True
    if "row" in text:
        return "fp8_rows", True
    if "block" in text:
        return "fp8_block", True
    return ("fp8" if "fp8" in text or "e4m3" in text else "bf16"), True


def recomputed(row: Row, torchtitan: bool) -> tuple[str, tuple[str, ...]] | None:
    """What is computed again and by which operations; None where the column is silent."""
    text = row["recompute"].lower()
    if not text:
        return None
    if text.startswith(("full", "custom", "remat")):
        return "full", CHEAP
    if re.match(r"(no|none|nothing|off)\b", text):
        return "none", CHEAP
    if "per-op" in text or (torchtitan and text.startswith("selective")):
        return "operations", ALTERNATE
    named = operations_of(text)
    return ("operations", named) if named else ("selective", CHEAP)


def operations_of(text: str) -> tuple[str, ...]:
    """The operations of the modules that a text names."""
    return tuple(dict.fromkeys(MODULES[each] for each in re.findall(r"[a-z_]+", text) if each in MODULES))
