"""LLM-Mesh: small models share devices as far as all of them keep their SLO, on cheap devices (CPUs) where these do.

"LLM-Mesh: Enabling Elastic Sharing for Serverless LLM Inference" (arXiv 2507.00507); no code was found, and its rules
follow its abstract and a summary. Instances on a device take turns token by token: the next step is that of
the one with the least headroom, which is the time until its next token is late. An instance is let in only where a dry
run of all their steps leaves every headroom at 0 or more, and its memory grows and shrinks between watermarks. A model
goes to a CPU if its SLO is met there, else to a GPU. Requests go to the fullest instance, so that small ones drain, and
an instance that must grow displaces a smaller one.

Here a bucket is a model with its requests, and `Unit.tenancies` say what it takes of a device. A dry run that ends
well is one in which the parts of the time sum up to 1 at most: within each TPOT every model has a step, and prompts
have the rest. Models are placed by size, the largest first (so none is displaced), each on the cheapest kind of which
one device carries the whole of it: on the fullest device with room, else on a new one. What no single device carries
takes whole ones of the kind that carries most, and its rest is placed as a model is.

Parameters: `headroom` (0, the paper's): part of the time that is left free. `watermark` (0.9, ours): part of the memory
that may be in use.

Deviations. The paper decides for each request as it comes; here a demand is placed as a whole, and elasticity is to
place each period from scratch, regardless of earlier places. Waiting for memory that others still give back takes no
time. It is a heuristic: with two kinds or four models it may take more devices than are needed, but never more than
one for each model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Demand, Placement, Share, Unit
from poise.policies.kit.demand_checks import UNLIMITED, check, served, short, taken

ROUNDING = 1e-9


class Piece(NamedTuple):
    """Requests per second of a bucket that are placed together."""

    bucket: int
    rate: float


@dataclass(slots=True)
class Host:
    """A unit in use: the parts used, and the buckets that use them."""

    unit: int
    copy: int
    time: float = 0.0
    memory: float = 0.0
    pieces: list[Piece] = field(default_factory=list)

    @property
    def used(self) -> float:
        """The used part of the scarcer resource."""
        return max(self.time, self.memory)


@dataclass(frozen=True, slots=True)
class LlmMesh:
    """Pack models on shared devices. See the module for the rule and its parameters."""

    headroom: float = 0.0
    watermark: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.headroom < 1:
            raise ValueError(f"headroom {self.headroom} is no part of the time; give 0 or more, less than 1")
        if not 0 < self.watermark <= 1:
            raise ValueError(f"watermark {self.watermark} is no part of the memory; give more than 0, at most 1")

    def place(self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = UNLIMITED) -> Placement:
        """A placement that carries all; CapacityError where what is available does not."""
        hosts, left = self.pack(demand, units, available)
        if left:
            counts = _counts(self.pack(demand, units)[0], units)
            raise CapacityError(short(counts, units, available, "sharing"))
        shares = [Share(piece.bucket, host.unit, piece.rate, host.copy) for host in hosts for piece in host.pieces]
        counts = _counts(hosts, units)
        loads = tuple(_load([host for host in hosts if host.unit == index]) for index in range(len(units)))
        price = sum(count * unit.price for count, unit in zip(counts, units, strict=True))
        return Placement(counts, tuple(sorted(shares)), loads, price, min(bound(demand, units), price))

    def pack(
        self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = UNLIMITED
    ) -> tuple[list[Host], list[Piece]]:
        """The devices taken, and what has no place on those that are available; CapacityError where one never had."""
        check(demand, units, available)
        _check(demand, units)
        served(demand, units)
        kinds = sorted(range(len(units)), key=lambda index: units[index].price)
        pieces = self._pieces(demand, units, kinds)
        hosts: list[Host] = []
        return hosts, [piece for piece in pieces if not self._put(piece, kinds, units, available, hosts)]

    def _pieces(self, demand: Demand, units: Sequence[Unit], kinds: Sequence[int]) -> list[Piece]:
        """What is placed together, the largest first; of a bucket that no device carries, whole devices and a rest."""
        found = []
        for index, bucket in enumerate(demand.buckets):
            most = max(self._whole(unit, index) for unit in units) if bucket.rate > 0 else inf
            if most <= 0:
                raise CapacityError(
                    f"llm_mesh: no unit has room for bucket {index} within headroom {self.headroom:g} and watermark "
                    f"{self.watermark:g}; loosen these, or give larger units"
                )
            rate = bucket.rate
            while rate > most * (1 + ROUNDING):
                found.append(Piece(index, most))
                rate -= most
            found += [Piece(index, rate)] * (rate > 0)

        def size(piece: Piece) -> float:
            able = next(each for each in kinds if piece.rate <= self._whole(units[each], piece.bucket) * (1 + ROUNDING))
            return max(uses(units[able], piece.bucket, piece.rate))

        return sorted(found, key=size, reverse=True)

    def _whole(self, unit: Unit, bucket: int) -> float:
        """Requests per second of a bucket that one unit carries alone."""
        most = unit.rates[bucket]
        if not unit.tenancies or not most:
            return most
        own = unit.tenancies[bucket]
        for free, each in (
            (1 - self.headroom - own.time, own.time_rate),
            (self.watermark - own.memory, own.memory_rate),
        ):
            most = min(most, 0.0 if free < -ROUNDING else max(free, 0.0) / each if each else inf)
        return most

    def _put(
        self, piece: Piece, kinds: Sequence[int], units: Sequence[Unit], available: Mapping[str, int], hosts: list[Host]
    ) -> bool:
        """Whether the piece found a place, on the fullest host of the cheapest kind that has one."""
        for index in kinds:
            unit = units[index]
            if piece.rate > self._whole(unit, piece.bucket) * (1 + ROUNDING):
                continue
            mine = [host for host in hosts if host.unit == index]
            open_ = [host for host in mine if self._fits(host, unit, piece)]
            if not open_:
                counts = _counts(hosts, units)
                if taken(counts, units).get(unit.device, 0) + unit.devices > available.get(unit.device, inf):
                    continue
                open_ = [Host(index, len(mine))]
                hosts += open_
            host = max(open_, key=lambda each: each.used)
            time, memory = uses(unit, piece.bucket, piece.rate)
            host.time, host.memory = host.time + time, host.memory + memory
            host.pieces.append(piece)
            return True
        return False

    def _fits(self, host: Host, unit: Unit, piece: Piece) -> bool:
        """Whether a dry run meets every deadline, and memory stays below its watermark."""
        time, memory = uses(unit, piece.bucket, piece.rate)
        late = host.time + time > 1 - self.headroom + ROUNDING
        return bool(unit.tenancies) and not late and host.memory + memory <= self.watermark + ROUNDING


def uses(unit: Unit, bucket: int, rate: float) -> tuple[float, float]:
    """Parts of the time and of the memory of a unit that requests of a bucket take; all, where it shares nothing."""
    if not unit.tenancies:
        return (max(rate / unit.rates[bucket], 1.0),) * 2
    own = unit.tenancies[bucket]
    return own.time + own.time_rate * rate, own.memory + own.memory_rate * rate


def bound(demand: Demand, units: Sequence[Unit]) -> float:
    """A price below which no placement is: each bucket at its cheapest by time alone, or by memory alone."""
    sums = [0.0, 0.0]
    for index, bucket in enumerate(demand.buckets):
        if bucket.rate > 0:
            found = [(unit.price, uses(unit, index, bucket.rate)) for unit in units if unit.rates[index]]
            for of in (0, 1):
                sums[of] += min(price * parts[of] for price, parts in found)
    return max(sums)


def _load(hosts: Sequence[Host]) -> float:
    """How many of a unit would do if they could be divided."""
    return max(sum(host.time for host in hosts), sum(host.memory for host in hosts))


def _counts(hosts: Sequence[Host], units: Sequence[Unit]) -> tuple[int, ...]:
    return tuple(sum(host.unit == index for host in hosts) for index in range(len(units)))


def _check(demand: Demand, units: Sequence[Unit]) -> None:
    for unit in units:
        if unit.tenancies and len(unit.tenancies) != len(demand.buckets):
            raise UserError(
                f"unit {unit.name}: {len(unit.tenancies)} tenancies for {len(demand.buckets)} buckets; give one each"
            )
        if not all(0 <= part < inf for each in unit.tenancies for part in each):
            raise UserError(f"unit {unit.name}: tenancies {unit.tenancies} are not all parts; give 0 or more of each")
