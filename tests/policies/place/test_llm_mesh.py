"""LLM-Mesh against brute force, against one model per device, and against its own limits."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Bucket, Demand, Placement, Tenancy, Unit
from poise.policies.place.llm_mesh import LlmMesh, uses

RATES = st.sampled_from([0.0, 0.1, 0.4, 1.0, 2.7])
TENANCIES = st.builds(
    Tenancy,
    st.sampled_from([0.02, 0.1, 0.3]), st.sampled_from([0.05, 0.2, 0.45]),
    st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([0.01, 0.08]),
)  # fmt: skip


def alone(tenancy: Tenancy) -> float:
    """Requests per second of one model on a device of its own."""
    return min(
        (1 - tenancy.time) / tenancy.time_rate if tenancy.time_rate else inf, (1 - tenancy.memory) / tenancy.memory_rate
    )


def unit(name: str, price: float, tenancies: tuple[Tenancy, ...], able: tuple[bool, ...] = ()) -> Unit:
    rates = tuple(alone(each) for each in tenancies)
    if able:
        rates = tuple(rate if can else 0.0 for rate, can in zip(rates, able, strict=True))
    return Unit(name, price, rates, name, tenancies=tenancies)


def demand(rates: tuple[float, ...]) -> Demand:
    return Demand(tuple(Bucket(100, 100, rate) for rate in rates))


@st.composite
def cases(draw: st.DrawFn, most: int, kinds: int) -> tuple[Demand, tuple[Unit, ...], LlmMesh]:
    models = draw(st.integers(1, most))
    load = demand(tuple(draw(RATES) for _ in range(models)))
    units = []
    for index in range(draw(st.integers(1, kinds))):
        able = tuple(index == 0 or draw(st.booleans()) for _ in range(models))
        tenancies = tuple(draw(TENANCIES) for _ in range(models))
        units.append(unit(f"kind {index}", draw(st.sampled_from([0.7, 3.67])), tenancies, able))
    return load, tuple(units), LlmMesh(draw(st.sampled_from([0.0, 0.2])), draw(st.sampled_from([0.7, 0.9])))


def most_alone(policy: LlmMesh, kind: Unit, bucket: int) -> float:
    """Requests per second that a device of this kind carries alone, within the limits of the policy."""
    own = kind.tenancies[bucket]
    by_time = (1 - policy.headroom - own.time) / own.time_rate if own.time_rate else inf
    return min(by_time, (policy.watermark - own.memory) / own.memory_rate) if kind.rates[bucket] else 0.0


def check(load: Demand, units: tuple[Unit, ...], policy: LlmMesh, found: Placement) -> None:
    """Every request goes somewhere, no device has more than its time and its memory, and the sums are right."""
    for index, bucket in enumerate(load.buckets):
        assert isclose(sum(share.rate for share in found.shares if share.bucket == index), bucket.rate, abs_tol=1e-9)
    for index, kind in enumerate(units):
        mine = [share for share in found.shares if share.unit == index]
        assert {share.copy for share in mine} == set(range(found.counts[index]))
        assert all(kind.rates[share.bucket] for share in mine)
        for copy in range(found.counts[index]):
            parts = [uses(kind, share.bucket, share.rate) for share in mine if share.copy == copy]
            assert sum(time for time, _ in parts) <= 1 - policy.headroom + 1e-6
            assert sum(memory for _, memory in parts) <= policy.watermark + 1e-6
        assert found.loads[index] <= found.counts[index] + 1e-6
    assert isclose(found.price, sum(count * kind.price for count, kind in zip(found.counts, units, strict=True)))
    assert found.bound <= found.price


@given(cases(6, 3))
@settings(max_examples=200, deadline=None)
def test_no_device_has_more_than_it_holds(case: tuple[Demand, tuple[Unit, ...], LlmMesh]) -> None:
    load, units, policy = case
    check(load, units, policy, policy.place(load, units))


@given(cases(6, 3))
@settings(max_examples=150, deadline=None)
def test_never_dearer_than_each_model_on_its_own(case: tuple[Demand, tuple[Unit, ...], LlmMesh]) -> None:
    """Nor than the same kinds that are not shared, where one device carries each model."""
    load, units, policy = case
    own = 0.0
    for index, bucket in enumerate(load.buckets):
        if bucket.rate:
            prices = [kind.price for kind in units if bucket.rate <= most_alone(policy, kind, index)]
            if not prices:
                return
            own += min(prices)
    assert policy.place(load, units).price <= own + 1e-9


def groupings(items: list[int]) -> Iterator[list[list[int]]]:
    """Every way to put items together."""
    if not items:
        yield []
        return
    for rest in groupings(items[1:]):
        yield [[items[0]], *rest]
        for at, group in enumerate(rest):
            yield [*rest[:at], [items[0], *group], *rest[at + 1 :]]


def brute(load: Demand, kind: Unit, policy: LlmMesh) -> float:
    """The fewest devices over every way to put whole models together."""
    models = [index for index, bucket in enumerate(load.buckets) if bucket.rate]

    def fits(group: list[int]) -> bool:
        parts = [uses(kind, index, load.buckets[index].rate) for index in group]
        late = sum(time for time, _ in parts) > 1 - policy.headroom + 1e-9
        return not late and sum(memory for _, memory in parts) <= policy.watermark + 1e-9

    return min((len(groups) for groups in groupings(models) if all(map(fits, groups))), default=inf)


@given(cases(3, 1))
@settings(max_examples=200, deadline=None)
def test_up_to_three_models_take_as_few_devices_as_brute_force(case: tuple[Demand, tuple[Unit, ...], LlmMesh]) -> None:
    load, units, policy = case
    fewest = brute(load, units[0], policy)
    if fewest < inf:
        assert policy.place(load, units).counts == (fewest,)


@given(cases(6, 1))
@settings(max_examples=100, deadline=None)
def test_more_models_take_at_most_four_times_as_many(
    case: tuple[Demand, tuple[Unit, ...], LlmMesh],
) -> None:
    """No two devices have room for each other, so two of them hold more than one's time or more than one's memory."""
    load, units, policy = case
    fewest = brute(load, units[0], policy)
    if fewest < inf:
        assert fewest <= policy.place(load, units).counts[0] <= 4 * fewest


@given(st.integers(1, 40), TENANCIES, st.sampled_from([0.1, 0.4]))
def test_equal_models_take_as_many_devices_as_they_must(models: int, tenancy: Tenancy, rate: float) -> None:
    kind = unit("A100", 3.67, (tenancy,) * models)
    time, memory = uses(kind, 0, rate)
    together = min(int(1 / time + 1e-6), int(0.9 / memory + 1e-6))
    assert LlmMesh().place(demand((rate,) * models), (kind,)).counts == (ceil(models / together),)


CPU = unit("CPU", 0.5, (Tenancy(0.4, 0.1, 0.1, 0.01), Tenancy(0.9, 0.1, 1.0, 0.01)))
GPU = unit("GPU", 3.67, (Tenancy(0.05, 0.2, 0.01, 0.01), Tenancy(0.1, 0.3, 0.02, 0.01)))


def test_a_cpu_takes_what_it_can_in_time_and_a_gpu_the_rest() -> None:
    found = LlmMesh().place(demand((1.0, 1.0)), (GPU, CPU))
    assert [(share.bucket, share.unit) for share in found.shares] == [(0, 1), (1, 0)]


def test_where_cpus_are_taken_a_gpu_helps_out() -> None:
    policy = LlmMesh()
    load, units = demand((3.0, 0.05)), (GPU, CPU)
    assert policy.place(load, units).counts == (0, 2)
    assert policy.place(load, units, {"CPU": 1}).counts == (1, 1)
    assert policy.place(load, units, {"CPU": 0}).counts == (1, 0)


def test_what_no_device_carries_takes_whole_ones_and_shares_its_rest() -> None:
    kind = unit("GPU", 1.0, (Tenancy(0.1, 0.1, 0.3, 0.1), Tenancy(0.2, 0.1, 0.1, 0.1)))
    found = LlmMesh().place(demand((7.0, 1.0)), (kind,))
    assert found.counts == (3,)
    (rest,) = (share for share in found.shares if share.bucket == 0 and share.rate < 2.9)
    assert rest.rate == pytest.approx(1.0)
    assert {share.copy for share in found.shares if share.bucket == 1} == {rest.copy}


def test_units_without_tenancies_are_not_shared() -> None:
    found = LlmMesh().place(demand((0.1, 0.1, 5.0)), (Unit("GPU", 2.0, (2.0, 2.0, 2.0), "GPU"),))
    assert found.counts == (5,)
    assert found.bound == pytest.approx(2.0 * (1 + 1 + 2.5))


def test_what_has_no_place_is_reported() -> None:
    policy, kind = LlmMesh(), Unit("GPU", 2.0, (2.0,) * 3, "GPU")
    hosts, left = policy.pack(demand((0.1, 1.0, 0.5)), (kind,), {"GPU": 2})
    assert len(hosts) == 2 and len(left) == 1
    with pytest.raises(CapacityError, match="2 GPU do not carry the demand: without limits sharing takes 3 GPU"):
        policy.place(demand((0.1, 1.0, 0.5)), (kind,), {"GPU": 2})


def test_a_model_without_room_on_any_device() -> None:
    kind = unit("GPU", 1.0, (Tenancy(0.1, 0.95, 0.1, 0.01),))
    with pytest.raises(CapacityError, match=r"no unit has room for bucket 0 within headroom 0 and watermark 0\.9"):
        LlmMesh().place(demand((1.0,)), (kind,))


@pytest.mark.parametrize(
    ("tenancies", "message"),
    [((Tenancy(0, 0, 0, 0),) * 2, "2 tenancies for 1 buckets"), ((Tenancy(0, -1, 0, 0),), "are not all parts")],
)
def test_tenancies_that_cannot_be(tenancies: tuple[Tenancy, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LlmMesh().place(demand((1.0,)), (Unit("GPU", 1.0, (1.0,), "GPU", tenancies=tenancies),))


@pytest.mark.parametrize("parameters", [{"headroom": 1.0}, {"headroom": -0.1}, {"watermark": 0.0}, {"watermark": 1.1}])
def test_parameters_that_cannot_be(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        LlmMesh(**parameters)
