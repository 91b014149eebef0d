"""Lenders of devices that were not measured: chosen by how well they lent to alike devices, blended by logs."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device
from poise.cost.efficiency import Efficiencies
from poise.cost.operator import OPERATORS
from poise.cost.origin import Error, How
from poise.cost.tables import Tables, distance, load_tables
from poise.cost.tables.blend import Blend
from poise.cost.tables.lending import NEAR, ROOFLINE, Loan, chosen, expected
from poise.cost.typical import parts

TABLES = load_tables()
ADA = device("L40S")
KINDS = ("gemm", "prefill", "decode", "moe")


def test_a_loan_counts_the_more_the_more_alike_its_borrower_is() -> None:
    loans = [Loan("gemm", "a", "near", Error(0.1, 0.2)), Loan("gemm", "a", "far", Error(0.5, 0.9))]
    found = expected(loans, {"a": 2.0, "near": 0.0, "far": 3.0}, lambda one, other: 2.0)
    weight = exp(-3.0)
    assert found["a"].median == pytest.approx((0.1 + 0.5 * weight) / (1 + weight))
    assert found["a"].p90 == pytest.approx((0.2 + 0.9 * weight) / (1 + weight))


def test_a_loan_counts_the_less_the_more_the_lenders_distance_differs() -> None:
    loans = [Loan("gemm", "a", "alike", Error(0.1, 0.2)), Loan("gemm", "a", "other", Error(0.5, 0.9))]
    apart = {"alike": 2.0, "other": 5.0}
    found = expected(loans, {"a": 2.0, "alike": 1.0, "other": 1.0}, lambda _, other: apart[other])
    assert found["a"].median == pytest.approx((0.1 + 0.5 * exp(-3.0)) / (1 + exp(-3.0)))


@given(st.dictionaries(st.text(max_size=3), st.floats(0.01, 2.0), min_size=1))
def test_parts_are_one_in_all_and_fall_as_inverse_squares(medians: dict[str, float]) -> None:
    found = chosen({name: Error(median, 1.0) for name, median in medians.items()})
    assert sum(each.part for each in found) == pytest.approx(1.0)
    best = found[0]
    assert best.error.median == min(medians.values())
    for each in found:
        assert each.error.median <= NEAR * best.error.median
        assert each.part / best.part == pytest.approx((best.error.median / each.error.median) ** 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_blend_is_the_mean_of_logs_of_its_lenders_and_the_roofline(kind: str) -> None:
    found = TABLES.curve(kind, ADA, "bf16", "vllm")
    assert isinstance(found, Blend)
    axes = found.lenders[0][0].grid.axes
    at = tuple(2.0 ** axis.nodes[len(axis.nodes) // 2] for axis in axes)
    total = sum(part * log(curve.seconds(*at)) for curve, part in found.lenders)
    compute, moved, fixed = parts(kind, "bf16", found.figures, at, Efficiencies())
    total += found.plain * log(fixed + max(compute, moved))
    assert found.seconds(*at) == pytest.approx(exp(total))
    assert sum(part for _, part in found.lenders) + found.plain == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_slice_of_a_blend_is_the_blend_at_its_nodes_and_rises(kind: str, data: st.DataObject) -> None:
    found = TABLES.curve(kind, ADA, "bf16", "vllm")
    assert isinstance(found, Blend)
    rest = {"gemm": (4096.0, 1024.0), "moe": (1e7, 8.0, 1.0, 2.0)}.get(kind, (512.0, 4.0, 128.0))
    sliced = found.slice(1, *rest)
    node = data.draw(st.sampled_from(sliced.grid.axes[0].nodes))
    assert sliced.seconds(2.0**node) == pytest.approx(found.seconds(2.0**node, *rest), rel=1e-9)
    one, other = sorted(data.draw(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6))))
    assert sliced.seconds(one) <= sliced.seconds(other) * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["L40S", "A40", "MI300X", "TPU-v6e", "GB200", "H20"])
def test_no_blend_is_faster_than_the_datasheet(kind: str, name: str) -> None:
    found = TABLES.curve(kind, device(name), "bf16", "vllm")
    assert found is not None
    for at in [(1, 1, 1, 64, 1), (4096, 4096, 4, 128, 1), (1 << 20, 1 << 15, 8, 256, 2)]:
        place = at[: len(OPERATORS[kind].axes)]
        assert found.seconds(*place) >= max(OPERATORS[kind].least(place, "bf16", found.figures)) * (1 - 1e-9)


def test_a_near_relative_answers_alone_and_a_stranger_has_several_lenders() -> None:
    near, far = (TABLES.curve("gemm", device(name), "bf16", "vllm") for name in ("GB200", "MI300X"))
    assert near is not None
    assert not isinstance(near, Blend)
    assert near.table.device == "B200-SXM-180GB"
    assert isinstance(far, Blend)
    assert far.origin(64, 4096, 4096).how in (How.BORROWED, How.ROOFLINE)
    assert far.origin().error.median > near.origin().error.median > 0


def test_a_measured_device_borrows_nothing_and_is_borrowed_for_when_left_out() -> None:
    own = TABLES.curve("gemm", device("H100"), "bf16", "vllm")
    assert own is not None
    assert not own.borrowed
    others = TABLES.without(device("H100").name)
    assert all("H100-SXM-80GB" not in (loan.lender, loan.borrower) for loan in others.loans)
    lent = others.curve("gemm", device("H100"), "bf16", "vllm")
    assert lent is not None
    assert lent.borrowed
    assert lent.origin().device == "H200-SXM-141GB"


def test_where_only_the_roofline_is_near_it_answers_alone() -> None:
    loans = [Loan("gemm", ROOFLINE, "A30", Error(0.1, 0.3)), Loan("gemm", "H100-SXM-80GB", "A30", Error(0.9, 2.0))]
    found = replace(TABLES, loans=tuple(loans)).curve("gemm", ADA, "bf16", "vllm")
    assert found is not None
    at = tuple(2.0 ** axis.nodes[2] for axis in found.table.axes)
    compute, moved, fixed = parts("gemm", "bf16", found.figures, at, Efficiencies())
    assert found.seconds(*at) == pytest.approx(fixed + max(compute, moved))
    origin = found.origin()
    assert (origin.how, origin.device) == (How.ROOFLINE, "")
    assert origin.error.median == pytest.approx(exp(0.1) - 1)


def test_without_loans_the_nearest_by_datasheet_answers() -> None:
    bare = Tables(TABLES.tables, TABLES.devices, TABLES.about)
    found = bare.curve("gemm", ADA, "fp8", "vllm")
    assert found is not None
    broad = {table.device for table in bare.tables if table.kind == "gemm" and table.format == "fp8"}
    assert found.table.device == min(broad, key=lambda name: distance(ADA, TABLES.devices[name]))
