"""The SLO as it is written on the command line."""

from __future__ import annotations

import pytest

from poise.core.errors import UserError
from poise.core.spec import Slo
from poise.plan.goal import read_slo


def test_an_slo_is_read() -> None:
    assert read_slo("ttft_s=1.0, tpot_s=0.05") == (Slo(1.0, 0.05), 0.99)
    assert read_slo("e2e_s=30,attainment=0.9") == (Slo(e2e_s=30.0), 0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no limit is given"), ("attainment=0.9", "no limit is given"), ("ttft=1", "there is no 'ttft'"),
        ("ttft_s", "'' is not a number"), ("ttft_s=fast", "'fast' is not a number"), ("ttft_s=0", "above 0"),
        ("tpot_s=-1", "above 0"), ("tpot_s=nan", "above 0"), ("ttft_s=inf", "above 0"),
        ("ttft_s=1,ttft_s=2", "twice"), ("ttft_s=1,attainment=1.5", "at most 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_slo(text)
