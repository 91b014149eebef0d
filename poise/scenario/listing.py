"""Lists models, devices and policies: as rows for people and as data for programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from textwrap import fill
from typing import Any

from poise.report.table import show
from poise.report.wording import MISSING, significant

WIDTH = 110
"""Characters of a line of text."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A catalogue as plain data, and a function that prints it."""

    data: list[dict[str, Any]]
    show: Callable[[], None]


def models() -> Listing:
    """The built-in models with their size, KV cache and context."""
    from poise.catalogue import models

    data: list[dict[str, Any]] = [
        {
            "name": model.name,
            "parameters": model.parameters,
            "active_parameters": model.active_parameters,
            "layers": model.layers,
            "kv_bytes_per_token": model.kv_bytes_per_token(16),
            "weight_bytes": model.weight_bytes(16),
            "max_context": model.max_context,
            "source": model.source,
        }
        for model in models()
    ]
    headers = ("model", "parameters", "active", "layers", "BF16 GB", "KV kB/token", "context")
    rows = [
        (
            str(each["name"]),
            f"{significant(each['parameters'] / 1e9, 3)} B",
            f"{significant(each['active_parameters'] / 1e9, 3)} B",
            str(each["layers"]),
            significant(each["weight_bytes"] / 1e9, 3),
            significant(each["kv_bytes_per_token"] / 1e3, 4),
            f"{each['max_context']:,}",
        )
        for each in data
    ]
    title = "Built-in models (any other: the path of its config.json)"
    return Listing(data, lambda: show(title, headers, rows))


def devices() -> Listing:
    """The built-in devices with their peaks, memory, power and listed price."""
    from poise.catalogue import devices

    data: list[dict[str, Any]] = [
        {
            "name": device.name,
            "vendor": device.vendor,
            "memory_gb": device.memory_bytes / 1e9,
            "memory_gb_s": device.memory_bw / 1e9,
            "bf16_tflops": device.bf16_flops / 1e12,
            "fp8_tflops": device.fp8_flops / 1e12,
            "tdp_w": device.tdp_w,
            "usd_per_hour": device.price_per_hour or None,
            "price_basis": device.price_basis,
            "source": device.source,
        }
        for device in devices()
    ]
    headers = ("device", "memory GB", "GB/s", "BF16 TFLOP/s", "FP8 TFLOP/s", "W", "$ / hour", "price of")
    names = ("memory_gb", "memory_gb_s", "bf16_tflops", "fp8_tflops", "tdp_w", "usd_per_hour")
    rows = [(str(each["name"]), *(_known(each[name]) for name in names), str(each["price_basis"])) for each in data]
    return Listing(data, lambda: show("Built-in devices (dense peaks; prices are examples)", headers, rows))


def _known(value: object) -> str:
    """A figure, or a dash where it is not known."""
    return significant(value) if isinstance(value, int | float) and value else MISSING


def policies() -> Listing:
    """The policies of every slot with their parameters and what they do."""
    from poise.core.slot import SLOTS
    from poise.policies.find import find, names

    data: list[dict[str, Any]] = []
    for slot in SLOTS:
        for name in names(slot):
            kind = find(slot, name)
            data.append({"slot": slot, "name": name, "parameters": _parameters(kind), "about": _about(kind)})
    lines = ["Policies (your own: package.module:Class)"]
    for slot, some in groupby(data, key=lambda each: str(each["slot"])):
        lines += ["", f"{slot}: {SLOTS[slot].purpose}; acts {SLOTS[slot].on}"]
        for each in some:
            given = ", ".join(f"{key}={value}" for key, value in each["parameters"].items())
            lines.append(_wrapped(f"{each['name']}: {each['about']}", 2))
            lines += [_wrapped(given, 6)] if given else []
    return Listing(data, lambda: print("\n".join(lines)))


def _wrapped(text: str, indent: int) -> str:
    """Text in lines of `WIDTH` characters, further ones 4 deeper."""
    return fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))


def _parameters(kind: type) -> dict[str, Any]:
    """Parameters with their defaults, None where there is none that JSON can hold."""
    given = inspect.signature(kind).parameters.values()
    plain = (bool, int, float, str)
    return {each.name: each.default if isinstance(each.default, plain) else None for each in given}


def _about(kind: type) -> str:
    """The first sentence of a class's docstring, or of its module's."""
    module = inspect.getmodule(kind)
    text = inspect.getdoc(module) or inspect.getdoc(kind) or ""
    return text.split("\n\n")[0].replace("\n", " ")


LISTINGS: dict[str, Callable[[], Listing]] = {"models": models, "devices": devices, "policies": policies}
"""The lists by the command that prints them."""
