"""`check_placer`: the contract of placers as one function, for any placer."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from math import isclose
from typing import Any

from poise.core.errors import UserError
from poise.core.placement import Bucket, Demand, Placement, Tenancy, Unit
from poise.core.policy import Placer
from poise.core.slot import SLOTS
from poise.core.spec import Role
from poise.testing.rule import RuleBroken, calling
from poise.testing.twins import twins

_CASES = 20
_SORTS: tuple[tuple[int, tuple[Role, ...]], ...] = (
    (2, ("mixed",)), (1, ("mixed",)), (1, ("prefill", "decode")),
)  # fmt: skip
"""How many buckets a demand has, and the phases of units."""


def check_placer(make: Callable[[], Placer], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Placer` that the placers which `make()` builds do not keep.

    The rules: equal fresh copies asked the same answer the same, deep copies too; the answer is a `Placement` with a
    count, not below 0, for each unit; it takes no more devices than are available; its price is that of its units, and
    not below its bound; shares name buckets and units, and each bucket is served by units of its phase; without
    a placement it raises CapacityError. Tried on small demands of the first sort that it takes: two buckets or
    one, units of both phases or of each; a sort that it does not take is refused with a UserError.
    """
    both, _ = twins("placer", make)
    rng = random.Random(seed)
    for buckets, roles in _SORTS:
        asks = [_case(rng, buckets, roles) for _ in range(_CASES)]
        found = [_placed(make, both.who, f"in case {at} of seed {seed}: {case}", *case) for at, case in enumerate(asks)]
        if any(found):
            return
    raise RuleBroken(f"{both.who} places nothing in any of {_CASES * len(_SORTS)} cases of {len(_SORTS)} sorts")


def _placed(
    make: Callable[[], Placer], who: str, where: str, demand: Demand, units: list[Unit], available: dict[str, int]
) -> bool:
    """Whether there is a placement, which is checked."""
    found = [_ask(each, who, where, demand, units, available) for each in (make(), copy.deepcopy(make()))]
    if found[0] != found[1]:
        raise RuleBroken(f"{who} answers {found[0]!r} and, asked the same, {found[1]!r}; {where}")
    if found[0] is not None:
        _check(who, found[0], demand, units, available, where)
    return found[0] is not None


def _case(rng: random.Random, buckets: int, roles: tuple[Role, ...]) -> tuple[Demand, list[Unit], dict[str, int]]:
    sizes = [Bucket(rng.choice((100, 2000)), rng.choice((50, 400)), rng.choice((0.5, 3.0))) for _ in range(buckets)]
    units = []
    for role in roles:
        for device, price in (("small", 1.0), ("large", 3.0)):
            rates = tuple(rng.choice((1.0, 2.5)) * price for _ in sizes)
            tenancies = tuple(Tenancy(0.1, 0.2, 0.2, 0.1) for _ in sizes)
            units.append(
                Unit(
                    f"{role} {device}", price, rates, device, role=role, latency_s=5.0 / price, energy_j=price,
                    tenancies=tenancies,
                )
            )  # fmt: skip
    return Demand(tuple(sizes)), units, rng.choice(({}, {"small": 3}, {"small": 1, "large": 1}))


def _ask(placer: Any, who: str, where: str, *given: Any) -> Placement | None:
    """The placer's answer; None where there is no placement, or it does not take such a demand."""
    with calling(who, where):
        try:
            found: Placement = getattr(placer, SLOTS["placer"].verb)(*given)
        except UserError:
            return None
    if not isinstance(found, Placement):
        raise RuleBroken(f"{who} answers {found!r}; it must be a Placement; {where}")
    return found


def _check(
    who: str, found: Placement, demand: Demand, units: list[Unit], available: dict[str, int], where: str
) -> None:
    if len(found.counts) != len(units) or any(type(count) is not int or count < 0 for count in found.counts):
        raise RuleBroken(f"{who} answers the counts {found.counts}; one for each of {len(units)} units; {where}")
    for device, most in available.items():
        taken = sum(
            count * unit.devices for count, unit in zip(found.counts, units, strict=True) if unit.device == device
        )
        if taken > most:
            raise RuleBroken(f"{who} takes {taken} devices {device!r}, and there are {most}; {where}")
    price = sum(count * unit.price for count, unit in zip(found.counts, units, strict=True))
    if not isclose(price, found.price, rel_tol=1e-6) or found.price < found.bound * (1 - 1e-6):
        raise RuleBroken(f"{who} says price {found.price} and bound {found.bound}; its units cost {price}; {where}")
    for at, bucket in enumerate(demand.buckets):
        for phase in ("prefill", "decode"):
            gone = sum(
                share.rate
                for share in found.shares
                if share.bucket == at and units[share.unit].role in (phase, "mixed")
            )
            if not isclose(gone, bucket.rate, rel_tol=1e-6):
                raise RuleBroken(f"{who} places {gone} of {bucket.rate} requests per second of bucket {at}; {where}")
