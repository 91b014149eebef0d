"""Adapters in random worlds: the fast path equals the reference, and slots balance after every event."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.depth import examples
from tests.sim.cases import Case, adapter_cases, cases
from tests.sim.plain import plain_cases
from tests.sim.test_exact import compare
from tests.sim.test_plain import assert_same, called


@pytest.mark.deep
@given(adapter_cases(cases()))
@settings(max_examples=examples(150))
def test_fast_path_equals_reference_with_adapters(case: Case) -> None:
    compare(case)


@pytest.mark.deep
@given(adapter_cases(plain_cases()))
@settings(max_examples=examples(150))
def test_plain_steps_equal_called_ones_and_the_reference(case: Case) -> None:
    plain = case.build(one_step=False, check=len(case.roles) < 5).simulate()
    assert_same(plain, called(case).build(one_step=False, check=False).simulate())
    compare(case)
