"""Power between idle and the TDP, energy as its integral, and a clock that slows arithmetic alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.power import Power, capped
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from tests.cost.pools import H100, LLAMA_8B

DEVICE = replace(H100, tdp_w=700.0)


@given(st.floats(0.05, 1.0))
def test_power_rises_with_the_clock_between_idle_and_tdp(clock: float) -> None:
    power = Power()
    assert power.watts(DEVICE, power.idle, clock) == pytest.approx(140.0)
    decode, prefill = power.watts(DEVICE, power.decode, clock), power.watts(DEVICE, power.prefill, clock)
    assert 140.0 < decode < prefill <= 700.0 + 1e-9
    assert power.watts(DEVICE, power.prefill, clock / 2) < prefill


def test_the_published_peak_at_the_lowest_clock() -> None:
    """A fifth less at 1,110 of 1,410 MHz (POLCA)."""
    assert Power().watts(DEVICE, 1.0, 1110 / 1410) / 700 == pytest.approx(0.8, abs=0.01)


def test_energy_by_hand() -> None:
    """Two replicas of four devices for ten seconds; one has a prompt for 2 s, the other decodes for 3 s."""
    slices = [(0, 2 * SECOND, 0, 0, 5, 100), (0, 3 * SECOND, 1, 0, 8, 0), (0, 9 * SECOND, 0, 0, 0, 0)]
    found = Power().joules(slices, DEVICE, 4, 2, 10.0)
    assert found == pytest.approx(700 * (8 * 10 * 0.2 + 4 * 2 * 0.8 + 4 * 3 * 0.4))


def test_energy_of_a_run_lies_between_idle_and_tdp() -> None:
    cluster = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
    run = ps.simulate(cluster, ps.workload.poisson(20, requests=60), slices=True).run
    span = max(run.records.ended_at) / SECOND
    found = Power().joules(run.slices, DEVICE, 1, 2, span)
    assert 2 * span * 140 < found < 2 * span * 700


def test_a_lower_clock_slows_prompts_and_spares_decodes() -> None:
    full, half = (Roofline().build(Pool(LLAMA_8B, device)) for device in (DEVICE, capped(DEVICE, 0.5)))
    prompt, decode = StepShape(0, (Chunk(8000, 0),)), StepShape(8)
    assert half.step(prompt).base / full.step(prompt).base == pytest.approx(2.0, rel=0.05)
    assert half.step(decode).base / full.step(decode).base == pytest.approx(1.0, rel=0.02)


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="its tdp_w is not known"):
        Power().watts(H100, 1.0)
    with pytest.raises(UserError, match=r"clock 0\.0 is no part"):
        capped(DEVICE, 0.0)
    with pytest.raises(UserError, match="power rises from idle to decode to prefill"):
        Power(idle=0.7)


@given(st.floats(0.21, 1.0), st.floats(0.21, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_cap_is_never_passed_and_spares_decodes(one: float, other: float, use: float, prompts: float) -> None:
    power, low, high = Power(), min(one, other), max(one, other)
    assert power.idle - 1e-12 <= power.mean(low, use, prompts) <= min(low, power.mean(high, use, prompts)) + 1e-12
    assert 0 < power.clock(low, power.prefill) <= power.clock(high, power.prefill) <= 1
    assert power.clock(low, power.prefill) <= power.clock(low, power.decode)
    clock = power.clock(low, power.prefill)
    assert power.watts(DEVICE, power.prefill, clock) == pytest.approx(low * 700.0), "at that clock it draws the cap"


def test_where_caps_begin_to_bite() -> None:
    power = Power()
    assert power.clock(1.0, power.prefill) == 1.0 > power.clock(0.99, power.prefill)
    assert power.clock(0.6, power.decode) == 1.0 > power.clock(0.59, power.decode)
    assert power.clock(0.5, power.decode) == pytest.approx(1110 / 1410, abs=0.01), "the lowest clock that was measured"
