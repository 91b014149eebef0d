"""Faults before vLLM: nothing is lost, nothing ends twice."""

from __future__ import annotations

import pytest

from tests.live.real import faults
from tests.live.real.engines import Pair
from tests.live.real.served import Served

pytestmark = pytest.mark.slow


def test_a_client_that_leaves_frees_the_engine(pair: Pair, served: Served) -> None:
    faults.client_leaves(pair.engines, served)


def test_it_drains(pair: Pair, served: Served) -> None:
    faults.gateway_drains(pair.engines, served)


def test_an_engine_is_killed(pair: Pair, served: Served) -> None:
    faults.engine_is_killed(pair.engines, served)
