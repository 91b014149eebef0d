"""Mélange against brute force, against its own bound, and in the shapes that the paper shows."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from math import ceil, inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Bucket, Demand, Placement, Unit
from poise.policies.place.melange import Melange

PUBLISHED = Demand((Bucket(1, 1, 6.0), Bucket(1, 2, 3.0), Bucket(2, 1, 15.0), Bucket(2, 2, 6.0)))
"""The example that ships with the authors' code, config/example.json."""
A10G = Unit("A10G", 1.01, (2, 1, 5, 2), "A10G")
A100 = Unit("A100", 3.67, (20, 20, 40, 20), "A100")


def test_the_authors_example() -> None:
    """melange-release prints 3 A10G and 1 A100 for 6.70 dollars an hour."""
    found = Melange(slice_factor=1).place(PUBLISHED, (A10G, A100))
    assert found.counts == (3, 1)
    assert isclose(found.price, 6.70)


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Melange().place(PUBLISHED, (A10G, A100))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("order", ["melange, ortools", "ortools, melange"])
def test_the_solver_and_or_tools_share_a_process(order: str) -> None:
    """Both bring a HiGHS of their own; a shared library of one name would be taken for the other's."""
    pytest.importorskip("ortools")
    parts = {"melange": "import highspy; highspy.Highs()", "ortools": "from ortools.sat.python import cp_model"}
    code = "; ".join(parts[part] for part in order.split(", "))
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


def check(demand: Demand, units: tuple[Unit, ...], found: Placement) -> None:
    """Every request goes somewhere, nobody is overloaded, and the sums are those of the parts."""
    for index, bucket in enumerate(demand.buckets):
        assert isclose(sum(share.rate for share in found.shares if share.bucket == index), bucket.rate, abs_tol=1e-9)
    for index, unit in enumerate(units):
        load = sum(share.rate / unit.rates[share.bucket] for share in found.shares if share.unit == index)
        assert isclose(load, found.loads[index], abs_tol=1e-9)
        assert load <= found.counts[index] + 1e-6
    assert isclose(found.price, sum(count * unit.price for count, unit in zip(found.counts, units, strict=True)))
    assert found.bound <= found.price


def brute(demand: Demand, units: tuple[Unit, ...], slices: int, available: dict[str, int]) -> float:
    """The least price over every way to give every slice to a unit."""
    each = [index for index, bucket in enumerate(demand.buckets) for _ in range(slices) if bucket.rate]
    best = inf
    for ways in product(range(len(units)), repeat=len(each)):
        loads = [0.0] * len(units)
        for bucket, unit in zip(each, ways, strict=True):
            rate = units[unit].rates[bucket]
            loads[unit] += demand.buckets[bucket].rate / slices / rate if rate else inf
        if inf in loads:
            continue
        counts = [ceil(load - 1e-9) for load in loads]
        taken: dict[str, int] = {}
        for count, unit_ in zip(counts, units, strict=True):
            taken[unit_.device] = taken.get(unit_.device, 0) + count * unit_.devices
        if all(taken[device] <= most for device, most in available.items()):
            best = min(best, sum(count * unit_.price for count, unit_ in zip(counts, units, strict=True)))
    return best


@st.composite
def cases(draw: st.DrawFn) -> tuple[Demand, tuple[Unit, ...], int, dict[str, int]]:
    buckets, kinds = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    slices = draw(st.integers(1, 2))
    rates = draw(st.lists(st.sampled_from([0.0, 0.7, 2.0, 5.3]), min_size=buckets, max_size=buckets))
    units = tuple(
        Unit(
            f"unit {index}",
            draw(st.sampled_from([0.7, 1.01, 3.67, 7.52])),
            tuple(draw(st.sampled_from([0.0, 0.9, 3.1, 8.0])) for _ in range(buckets)),
            f"device {index // 2}",
            draw(st.integers(1, 2)),
        )
        for index in range(kinds)
    )
    limits = draw(st.sampled_from([{}, {"device 0": 4}, {"device 0": 12}]))
    return Demand(tuple(Bucket(1, 1, rate) for rate in rates)), units, slices, limits


@given(cases())
@settings(max_examples=150, deadline=None)
def test_as_cheap_as_brute_force(case: tuple[Demand, tuple[Unit, ...], int, dict[str, int]]) -> None:
    demand, units, slices, available = case
    best = brute(demand, units, slices, available)
    try:
        found = Melange(slices).place(demand, units, available)
    except CapacityError:
        assert best == inf
        return
    check(demand, units, found)
    assert isclose(found.price, best if best < inf else 0.0, abs_tol=1e-6)


@given(cases(), st.integers(2, 3))
@settings(max_examples=60, deadline=None)
def test_finer_slices_and_more_kinds_never_cost_more(
    case: tuple[Demand, tuple[Unit, ...], int, dict[str, int]], finer: int
) -> None:
    demand, units, slices, _ = case
    try:
        found = Melange(slices).place(demand, units)
    except CapacityError:
        return
    assert Melange(slices * finer).place(demand, units).price <= found.price + 1e-6
    for unit in units:
        if all(rate or not bucket.rate for rate, bucket in zip(unit.rates, demand.buckets, strict=True)):
            assert found.price <= Melange(slices).place(demand, (unit,)).price + 1e-6


def test_without_limits_the_bound_is_each_bucket_at_its_cheapest() -> None:
    found = Melange().place(PUBLISHED, (A10G, A100))
    each = (min(unit.price / unit.rates[index] for unit in (A10G, A100)) for index in range(4))
    assert isclose(found.bound, sum(price * bucket.rate for price, bucket in zip(each, PUBLISHED.buckets, strict=True)))


@pytest.mark.parametrize(("rate", "counts"), [(0.5, (1, 0)), (19.0, (0, 1)), (21.0, (1, 1))])
def test_cheap_devices_at_a_low_rate_and_large_ones_at_a_high_one(rate: float, counts: tuple[int, int]) -> None:
    """A large device that idles is dear (the paper, section 3): its price is that of 20 requests per second."""
    demand, units = Demand((Bucket(1, 1, rate),)), (Unit("A10G", 1.01, (2.0,)), Unit("A100", 3.67, (20.0,)))
    assert Melange(slice_factor=42).place(demand, units).counts == counts


def test_no_requests_need_nothing() -> None:
    found = Melange().place(Demand((Bucket(1, 1, 0.0),)), (Unit("A10G", 1.0, (0.0,)),))
    assert found == Placement((0,), (), (0.0,), 0.0, 0.0)


@pytest.mark.parametrize(
    ("demand", "units", "available", "message"),
    [
        (PUBLISHED, (), {}, "there is no unit to place"),
        (
            Demand((Bucket(9000, 200, 3.0),)),
            (Unit("L4", 0.7, (0.0,)),),
            {},
            "no unit of L4 meets the SLO for requests of 9000 prompt and 200 output tokens",
        ),
        (
            PUBLISHED,
            (A10G, A100),
            {"A100": 0, "A10G": 3},
            "0 A100, 3 A10G do not carry the demand: without limits the",
        ),
    ],
)
def test_why_nothing_can_be_placed(
    demand: Demand, units: tuple[Unit, ...], available: dict[str, int], message: str
) -> None:
    with pytest.raises(CapacityError, match=message):
        Melange().place(demand, units, available)


@pytest.mark.parametrize(
    ("unit", "available", "message"),
    [
        (Unit("L4", 0.0, (1.0,)), {}, "unit L4: price 0.0 is none; give what one costs in an hour"),
        (Unit("L4", float("nan"), (1.0,)), {}, "price nan is none"),
        (Unit("L4", 1.0, (1.0, 2.0)), {}, "2 rates for 1 buckets"),
        (Unit("L4", 1.0, (float("nan"),)), {}, "are not all numbers"),
        (Unit("L4", 1.0, (1.0,), "L4", 0), {}, "takes 0 devices"),
        (Unit("L4", 1.0, (1.0,), "L4"), {"L40": 2}, "no unit is made of 'L40'; name one of L4"),
        (Unit("L4", 1.0, (1.0,)), {"L4": 2}, "name one of none, for no unit names its device"),
        (Unit("L4", 1.0, (1.0,), "L4"), {"L4": -1}, "-1 of L4 cannot be"),
    ],
)
def test_numbers_that_cannot_be(unit: Unit, available: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Melange().place(Demand((Bucket(1, 1, 1.0),)), (unit,), available)


def test_a_rate_that_cannot_be() -> None:
    with pytest.raises(UserError, match=r"bucket 0: rate -1\.0 is no number"):
        Melange().place(Demand((Bucket(1, 1, -1.0),)), (Unit("L4", 1.0, (1.0,)),))


@pytest.mark.parametrize("parameters", [{"slice_factor": 0}, {"gap": -0.1}, {"gap": 1.0}])
def test_parameters_that_cannot_be(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        Melange(**parameters)  # type: ignore[arg-type]
