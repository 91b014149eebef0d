"""The input and the answer of a placer: a demand by size, units that could serve it, and how many of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poise.core.spec import Role


class Bucket(NamedTuple):
    """Requests of about one size: their typical tokens, and their rate per second."""

    prompt_tokens: int
    output_tokens: int
    rate: float


@dataclass(frozen=True, slots=True)
class Demand:
    """A histogram of request sizes with rates."""

    buckets: tuple[Bucket, ...]

    @property
    def rate(self) -> float:
        """Requests per second over all buckets."""
        return sum(bucket.rate for bucket in self.buckets)


class Tenancy(NamedTuple):
    """What the requests of a bucket take of a device that others share, as parts of its time and of its memory.

    time, memory: by being there at all (weights, read at each step).  time_rate, memory_rate: for each request per
    second beyond that.
    """

    time: float
    memory: float
    time_rate: float
    memory_rate: float


@dataclass(frozen=True, slots=True)
class Unit:
    """Something that can be had any number of times and serves requests: an engine in a layout on some devices.

    price: of one for an hour, in whatever is minimised, the same for all units (dollars; or devices, or watts).
    rates: for each bucket the most requests per second at which one meets the SLO with that bucket alone (0: never).
    device, devices: which devices one takes and how many of them; for limits on what is available.
    role: which phase it serves; a unit that serves both is mixed.
    latency_s, energy_j: of a request under the whole demand, where that was measured (0: unsaid).
    tenancies: for each bucket what it takes of one that it shares (empty: it is not shared, or not computed).
    """

    name: str
    price: float
    rates: tuple[float, ...]
    device: str = ""
    devices: int = 1
    role: Role = "mixed"
    latency_s: float = 0.0
    energy_j: float = 0.0
    tenancies: tuple[Tenancy, ...] = ()


class Share(NamedTuple):
    """Requests per second of a bucket that go to a unit, both by index; `copy`: to which one of it (-1: unsaid)."""

    bucket: int
    unit: int
    rate: float
    copy: int = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """The number of each unit, and the part of each bucket that goes to each unit.

    counts: for each unit handed in, in order.  shares: where prefill and decode are apart, each bucket goes whole to
    both.  loads: how many of each would do if they could be divided.
    price: of all for an hour.  bound: the price below which no placement of this demand can be.
    """

    counts: tuple[int, ...]
    shares: tuple[Share, ...]
    loads: tuple[float, ...]
    price: float
    bound: float
