"""Which shipped price basis a whole fleet is priced on, so that no sum mixes two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from poise.catalogue.devices import bases, device, devices
from poise.core.errors import UserError

_DATE = re.compile(r"\d{4}(-\d{2})?$")
_SHOWN = 3
CURE = "give your own prices with --prices FILE, or plan with --minimize gpus or energy"


def basis_for(names: Iterable[str]) -> str:
    """The newest shipped basis that has a price for every device named (aliases will do); never a mixture of two.

    Of several of one date it is the one that prices most devices, so that a further device seldom changes it. UserError
    lists the devices that the bases lack, or the nearest names of an unknown device.
    """
    wanted = list(dict.fromkeys(device(name).name for name in names))
    for basis, priced in _shipped():
        if priced.issuperset(wanted):
            return basis
    raise UserError(_lacking(wanted))


@cache
def _shipped() -> tuple[tuple[str, frozenset[str]], ...]:
    """All bases with the devices that they price: the newest first, then those of most devices."""
    priced: dict[str, set[str]] = {}
    for each in devices():
        for basis in bases(each.name):
            priced.setdefault(basis, set()).add(each.name)
    order = sorted(priced, key=lambda basis: (_date(basis), len(priced[basis])), reverse=True)
    return tuple((basis, frozenset(priced[basis])) for basis in order)


def _date(basis: str) -> str:
    """The year, or year and month, at the end of a basis: "2026-08"."""
    found = _DATE.search(basis)
    return found[0] if found else ""


def _lacking(wanted: Sequence[str]) -> str:
    """Why no basis covers `wanted`: the devices without any price, else what the best bases lack."""
    priceless = [name for name in wanted if not bases(name)]
    if priceless:
        return f"no price is known for {', '.join(priceless)}; {CURE}"
    missing = {basis: [name for name in wanted if name not in priced] for basis, priced in _shipped()}
    best = sorted(missing, key=lambda basis: len(missing[basis]))[:_SHOWN]
    gaps = "; ".join(f"{basis!r} lacks {', '.join(missing[basis])}" for basis in best)
    return f"no one price basis covers {', '.join(wanted)}: {gaps}; {CURE}"
