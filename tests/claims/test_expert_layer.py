"""A layer of experts with spilled tokens: what must balance, and where it cannot pay."""

from __future__ import annotations

import pytest

from poise.catalogue import device
from poise.claims.expert_layer import spilled
from poise.claims.recorded_routing import view_of
from poise.claims.systems.moetuner import busiest
from poise.experts.placement import from_physical

H200 = device("H200")


def test_an_even_layer_is_left_as_it_is() -> None:
    layer = spilled(H200, 4096, 4 / 128)
    assert layer.sent == 0 and layer.native_s == layer.spilled_s and layer.native_bytes == layer.spilled_bytes


def test_what_is_sent_takes_time_that_few_tokens_do_not_repay() -> None:
    few, many = spilled(H200, 64, 0.95), spilled(H200, 65_536, 0.95)
    assert few.spilled_s > few.native_s and many.spilled_s < many.native_s
    assert many.imbalance == pytest.approx(few.imbalance) and many.left < 1.15


def test_the_busiest_link_weighs_nodes() -> None:
    import numpy as np

    flows = np.array([[[0.0, 3.0], [1.0, 0.0]]])
    placement = from_physical([[0, 1], [0, 1]], 2, 2)
    assert busiest(placement, flows, 1, 4.0) == 3.0
    assert busiest(placement, flows, 2, 4.0) == 12.0
    assert view_of(flows, 2).counts.tolist() == [[3.0, 1.0], [1.0, 3.0]]
