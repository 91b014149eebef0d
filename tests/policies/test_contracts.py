"""Every policy of every slot keeps the contract that the test kit checks."""

from __future__ import annotations

import pytest

from poise.policies.find import build, names
from poise.testing import check_admission, check_batcher, check_lender, check_order, check_router, check_scaler
from tests.depth import examples

NEEDED = {"slo_optimizer": {"profile": [[100, 100, 5.0], [1000, 100, 1.0]]}}


@pytest.mark.parametrize("name", names("router"))
def test_router(name: str) -> None:
    check_router(lambda: build("router", name))


@pytest.mark.deep
@pytest.mark.parametrize("name", names("batcher"))
def test_batcher(name: str) -> None:
    check_batcher(lambda: build("batcher", name), cases=examples(40))


@pytest.mark.parametrize("name", names("order"))
def test_order(name: str) -> None:
    check_order(lambda: build("order", name))


@pytest.mark.parametrize("name", names("admission"))
def test_admission(name: str) -> None:
    check_admission(lambda: build("admission", name))


@pytest.mark.parametrize("name", names("lender"))
def test_lender(name: str) -> None:
    check_lender(lambda: build("lender", name))


@pytest.mark.parametrize("name", names("scaler"))
def test_scaler(name: str) -> None:
    check_scaler(lambda: build("scaler", name, NEEDED.get(name)))
