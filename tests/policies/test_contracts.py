"""Every policy of every slot keeps the contract that the test kit checks."""

from __future__ import annotations

import pytest

from poise.core.slot import SLOTS
from poise.policies.find import build, names
from poise.testing import check_batcher, check_policy
from tests.depth import examples

NEEDED = {
    "slo_optimizer": {"profile": [[100, 100, 5.0], [1000, 100, 1.0]]},
    "constant": {"rate": 2.0},
}
"""What has no default."""

EVERY = [(slot, name) for slot in SLOTS for name in names(slot) if slot != "batcher"]


@pytest.mark.parametrize(("slot", "name"), EVERY)
def test_a_policy_keeps_its_contract(slot: str, name: str) -> None:
    needed = NEEDED.get(name) if slot in ("scaler", "forecast") else None
    check_policy(slot, lambda: build(slot, name, needed))


@pytest.mark.deep
@pytest.mark.parametrize("name", names("batcher"))
def test_batcher(name: str) -> None:
    check_batcher(lambda: build("batcher", name), cases=examples(40))
