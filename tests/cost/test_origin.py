"""Where look-ups come from: each operator's evidence, through wrappers, by the shape that is looked up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.spec import Pool
from poise.cost import Measured, Roofline
from poise.cost.drafted import Drafted, Drafting
from poise.cost.origin import How, origins_of
from poise.cost.tables import load_tables

TABLES = load_tables()
LLAMA = model("llama-3.1-8b")


def test_evidence_weakens_from_measured_shapes_outwards() -> None:
    gemm = TABLES.curve("gemm", device("H100"), "bf16", "vllm")
    assert gemm is not None
    assert gemm.origin(64, 4096, 4096).how is How.MEASURED
    assert gemm.origin(1 << 20, 1 << 18, 4096).how is How.EXTRAPOLATED
    assert gemm.origin(64, 4096, 4096).error == gemm.table.error
    assert gemm.origin(1 << 20, 1 << 18, 4096).error == gemm.table.lent


def test_an_answer_and_its_origin_agree() -> None:
    for name in ("H100", "L40S"):
        curve = TABLES.curve("decode", device(name), "bf16", "vllm")
        assert curve is not None
        for at in ((1024, 64, 4, 128), (1 << 22, 1 << 14, 4, 128), (700, 9, 3, 100)):
            answer, origin = curve.answer(*at), curve.origin(*at)
            assert (answer.how, answer.error, answer.table) == (origin.how.value, origin.error, origin.table)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("H100", {How.MEASURED, How.INTERPOLATED, How.EXTRAPOLATED}), ("A40", {How.BORROWED, How.ROOFLINE})],
)
def test_a_pool_knows_the_evidence_of_each_operator(name: str, wanted: set[How]) -> None:
    pool = Pool(LLAMA, device(name))
    found = origins_of(Measured().build(pool))
    assert {"gemm", "prefill", "decode"} <= {origin.kind for origin in found}
    assert {origin.how for origin in found} <= wanted


def test_wrappers_hand_evidence_on_and_a_roofline_has_none() -> None:
    pool = Pool(LLAMA, device("H100"))
    inner = Measured().build(pool)
    assert origins_of(Drafted(inner, pool, Drafting(2, 2.0))) == inner.origins()
    assert origins_of(Roofline().build(pool)) == ()


def test_another_format_is_borrowed() -> None:
    pool = replace(Pool(LLAMA, device("A100-80GB")), weights="fp4")
    found = {origin.kind: origin for origin in Measured().build(pool).origins() if origin.form == "mxfp4_wo"}
    assert found["gemm"].how is How.BORROWED
