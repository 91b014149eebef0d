"""Expert as a service: attention clients and expert servers as two pools, against one group that holds both.

Expert-as-a-Service (arXiv 2509.17863). A server that is lost takes its part of the experts' capacity along until
another one is there, while copies on other servers serve its experts; a group with its experts spread over all ranks
stops until it has started again. Servers join and leave one by one, groups whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from poise.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Pools:
    """clients, servers: devices of each pool.  client_rate, server_rate: tokens per second that one of them carries.
    copies: servers that hold each expert.
    """

    clients: int
    servers: int
    client_rate: float
    server_rate: float
    copies: int = 2

    def __post_init__(self) -> None:
        if self.clients < 1 or self.servers < 1 or self.client_rate <= 0 or self.server_rate <= 0:
            raise UserError(f"{self}: pools have devices with rates above 0; correct them")
        if not 1 <= self.copies <= self.servers:
            raise UserError(f"copies {self.copies} of an expert on {self.servers} servers; give 1 up to as many")

    def rate(self, lost: int = 0) -> float:
        """Tokens per second with `lost` servers lost: of the slower pool, and none once an expert may have no server.

        Clients send a lost server's tokens to the copies, evenly over those that are left.
        """
        if lost >= self.copies:
            return 0.0
        return min(self.clients * self.client_rate, (self.servers - lost) * self.server_rate)


@dataclass(frozen=True, slots=True)
class Outage:
    """A device that is lost at `at_s` and replaced `lasts_s` later."""

    at_s: float
    lasts_s: float


def lost_at(outages: Sequence[Outage], at_s: float) -> int:
    """Devices that are lost at an instant."""
    return sum(each.at_s <= at_s < each.at_s + each.lasts_s for each in outages)


def edges(outages: Sequence[Outage], until_s: float) -> list[float]:
    """The instants between which nothing changes, from 0 to the end."""
    inner = {at for each in outages for at in (each.at_s, each.at_s + each.lasts_s) if 0 < at < until_s}
    return [0.0, *sorted(inner), until_s]


def served(pools: Pools, outages: Sequence[Outage], offered: float, until_s: float) -> float:
    """The part of `offered` tokens per second that is served until the end: what waits during an outage is served later
    as far as rates allow.
    """
    return _served([(at, pools.rate(lost_at(outages, at))) for at in edges(outages, until_s)], offered, until_s)


def served_whole(rate: float, outages: Sequence[Outage], offered: float, until_s: float) -> float:
    """The same for a group that stops while any of its devices is lost."""
    rates = [(at, 0.0 if lost_at(outages, at) else rate) for at in edges(outages, until_s)]
    return _served(rates, offered, until_s)


def _served(rates: Sequence[tuple[float, float]], offered: float, until_s: float) -> float:
    waiting = done = 0.0
    for (at, rate), (end, _) in pairwise(rates):
        lasting = end - at
        passed = min(waiting + offered * lasting, rate * lasting)
        done += passed
        waiting += offered * lasting - passed
    return done / (offered * until_s)


def devices(loads: Sequence[float], rate: float, unit: int, least: int = 1) -> list[int]:
    """Devices that each load takes, added `unit` at a time, no fewer than `least` units; `rate` of one device."""
    if rate <= 0 or unit < 1:
        raise UserError(f"rate {rate} and unit {unit} are above 0; correct them")
    return [unit * max(least, ceil(load / (rate * unit) - 1e-9)) for load in loads]


def spared(loads: Sequence[float], client_rate: float, server_rate: float, group: int) -> float:
    """The part of device-hours that pools which grow one by one spare against groups of `group` devices of equal work.

    A group has clients and servers in the shares in which both are busy.
    """
    whole = 1 / (1 / client_rate + 1 / server_rate)
    fine = [sum(each) for each in zip(devices(loads, client_rate, 1), devices(loads, server_rate, 1), strict=True)]
    return 1 - sum(fine) / sum(devices(loads, whole, group))
