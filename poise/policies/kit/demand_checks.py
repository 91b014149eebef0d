"""Input checks shared by all placers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Demand, Unit

UNLIMITED: Mapping[str, int] = MappingProxyType({})
"""As many devices as are wanted."""


def check(demand: Demand, units: Sequence[Unit], available: Mapping[str, int]) -> None:
    """UserError where a number cannot be one, or a limit names no device of the units."""
    if not units:
        raise CapacityError("there is no unit to place; name at least one device that holds the model")
    for index, bucket in enumerate(demand.buckets):
        if not 0 <= bucket.rate < inf:
            raise UserError(f"bucket {index}: rate {bucket.rate} is no number of requests per second; give 0 or more")
    for unit in units:
        _check_unit(unit, len(demand.buckets))
    for device, count in available.items():
        if device not in {unit.device for unit in units}:
            raise UserError(f"available: no unit is made of {device!r}; name one of {_listed(units)}")
        if count < 0:
            raise UserError(f"available: {count} of {device} cannot be; give 0 or more")


def _check_unit(unit: Unit, buckets: int) -> None:
    if not 0 < unit.price < inf:
        raise UserError(f"unit {unit.name}: price {unit.price} is none; give what one costs in an hour, above 0")
    if len(unit.rates) != buckets:
        raise UserError(f"unit {unit.name}: {len(unit.rates)} rates for {buckets} buckets; give one for each")
    if not all(0 <= rate < inf for rate in unit.rates):
        raise UserError(f"unit {unit.name}: rates {unit.rates} are not all numbers; give 0 where it cannot serve")
    if unit.devices < 1:
        raise UserError(f"unit {unit.name}: it takes {unit.devices} devices; give 1 or more")


def served(demand: Demand, units: Sequence[Unit]) -> list[int]:
    """The buckets with requests; CapacityError for one that no unit can serve."""
    loaded = [index for index, bucket in enumerate(demand.buckets) if bucket.rate > 0]
    for index in loaded:
        if not any(unit.rates[index] for unit in units):
            prompt, output, rate = demand.buckets[index]
            raise CapacityError(
                f"no unit of {', '.join(unit.name for unit in units)} meets the SLO for requests of {prompt} prompt "
                f"and {output} output tokens ({rate:g} per second), not even alone; loosen the SLO or give larger units"
            )
    return loaded


def taken(counts: Sequence[int], units: Sequence[Unit]) -> dict[str, int]:
    """Devices used by the given counts of each unit, by name."""
    found: dict[str, int] = {}
    for count, unit in zip(counts, units, strict=True):
        found[unit.device] = found.get(unit.device, 0) + count * unit.devices
    return found


def short(counts: Sequence[int], units: Sequence[Unit], available: Mapping[str, int], what: str) -> str:
    """The message where `what` needs more devices than are available."""
    wanted = ", ".join(f"{count} {device or 'of no name'}" for device, count in taken(counts, units).items() if count)
    limits = ", ".join(f"{count} {device}" for device, count in available.items())
    return f"{limits} do not carry the demand: without limits {what} takes {wanted}; allow more devices, or ask less"


def _listed(units: Sequence[Unit]) -> str:
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none, for no unit names its device"
