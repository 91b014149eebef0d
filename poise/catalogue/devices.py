"""The built-in accelerators: datasheet figures with their sources, and list prices with their basis and date."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.names import Names
from poise.catalogue.spelling import device_words
from poise.core.errors import UserError
from poise.core.spec import Device

_DATA = Path(__file__).with_name("devices.json")
_MAKERS = ("nvidia", "amd", "google", "huawei", "intel", "habana", "geforce", "tesla", "instinct", "aws", "tenstorrent")

TERA = 1e12
GIGA = 1e9
MIB = 1 << 20
GIB = 1 << 30

_MARKS = re.compile(r"\((r|tm|c)\)", re.IGNORECASE)
"""Marks of registered names, as drivers and published tables have them: Intel(R) Arc(TM)."""

MEMORY_NEAR = 0.07
"""How far a stated size of memory may lie from a device's: drivers report less than labels, in units of their own."""

WIDE_LINK = 100 * GIGA
"""Bytes/s from which on a link is one between modules (SXM), not PCIe's or that of a bridge between two cards."""


@cache
def _table() -> dict[str, dict[str, Any]]:
    """The rows of the data file by device name."""
    return {row["name"]: row for row in json.loads(_DATA.read_text(encoding="utf-8"))}


@cache
def _names() -> Names:
    """Device names and aliases, with or without the maker's name."""
    return Names({name: row.get("aliases", ()) for name, row in _table().items()}, prefixes=_MAKERS)


@cache
def _built_in(name: str) -> Device:
    """The device of the row `name`; what the row leaves out is unknown."""
    row = _table()[name]
    prices = row.get("prices", {})
    basis = next(iter(prices), "")
    return Device(
        name=name,
        vendor=row["vendor"],
        bf16_flops=row["bf16_tflops"] * TERA,
        fp8_flops=row.get("fp8_tflops", 0) * TERA,
        int8_ops=row.get("int8_tops", 0) * TERA,
        fp4_flops=row.get("fp4_tflops", 0) * TERA,
        memory_bytes=row["memory_mib"] * MIB,
        memory_bw=row.get("memory_gb_s", 0) * GIGA,
        scaleup_bw=row.get("scaleup_gb_s", 0) * GIGA,
        scaleup_domain=row.get("scaleup_domain", 1),
        host_bw=row.get("host_gb_s", 0) * GIGA,
        scaleout_bw=row.get("scaleout_gbit_s", 0) * GIGA / 8,
        tdp_w=row.get("tdp_w", 0.0),
        price_per_hour=prices.get(basis, 0.0),
        price_basis=basis,
        source=row["source"],
        pcie=row.get("pcie", ""),
    )


def devices() -> tuple[Device, ...]:
    """All built-in accelerators, in the order of the list."""
    return tuple(_built_in(name) for name in _table())


def device(name: str, basis: str = "") -> Device:
    """The accelerator `name` (an alias will do: `H100`, `a100-80gb`, `4090`; any case and punctuation).

    Form and memory may stand in it (`NVIDIA H200 141GB HBM3e`); where they are not the device's, it is another.
    Peaks are dense. Memory is what the driver reports where that is known, else the datasheet's figure in GiB, which
    is what such parts carry. A figure that no source gives is 0 (bandwidths, power, price) or "" (price basis), so 0
    may mean "not known". Prices are examples and they move: `basis` picks another than the device's first (`bases`
    lists them). UserError lists the nearest names, or the bases that exist.
    """
    found = _found(name)
    if found is None:
        near = ", ".join(nearest(name))
        raise UserError(f"device {name!r} is not built in; nearest are {near}; or describe it field by field")
    built_in = _built_in(found)
    if not basis:
        return built_in
    prices = bases(found)
    if basis not in prices:
        known = ", ".join(map(repr, prices)) or "none"
        raise UserError(f"device {found} has no price on basis {basis!r}; known are {known}; or state price_per_hour")
    return replace(built_in, price_per_hour=prices[basis], price_basis=basis)


def _found(name: str) -> str | None:
    """The canonical name behind `name`, whose stated form and memory must be the device's; None where there is none."""
    name = _MARKS.sub("", name)
    found = _names().find(name)
    words = device_words(name)
    if found is not None or words is None:
        return found
    for known in map(_built_in, filter(None, map(_names().find, words.spellings))):
        if _is_form(known, words.form) and _is_memory(known, words.memory_gb):
            return known.name
    return None


def _is_form(known: Device, form: str) -> bool:
    """Whether `known` may have the form `form`: by its name, else by its links."""
    if form in ("", "nvl72"):
        return not form or known.scaleup_domain == 72
    own = [each for each in ("sxm", "pcie", "nvl") if each in known.name.lower()]
    if own or form == "nvl":
        return own == [form]
    return (known.scaleup_bw > WIDE_LINK) == (form == "sxm")


def _is_memory(known: Device, stated_gb: int) -> bool:
    """Whether `known` has `stated_gb` of memory, in GB or GiB; any where nothing is stated."""
    sizes = (known.memory_bytes / GIGA, known.memory_bytes / GIB)
    return not stated_gb or any(abs(size / stated_gb - 1) <= MEMORY_NEAR for size in sizes)


def nearest(name: str) -> list[str]:
    """The built-in devices whose names resemble `name` most, best first."""
    return _names().nearest(name)


def bases(name: str) -> dict[str, float]:
    """Dollars per device-hour of the device `name` by price basis, the default first."""
    return dict(_table()[device(name).name].get("prices", {}))
