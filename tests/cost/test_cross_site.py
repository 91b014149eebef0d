"""Prefill-as-a-Service's own numbers: the published profile, lengths and results, within 3 %."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.cross_site import CrossSite, Lengths

LENGTHS = Lengths(9.90, 1.00, 128, 131_072)
SIZES = np.array([1024, 8192, 32_768, 131_072])
SECONDS = np.array([0.44, 0.72, 1.84, 7.40])
MIB = np.array([190.8, 308.9, 701.3, 2316.3])
"""Of 8 H200 and the hybrid model of 1T parameters."""


def remote_s(tokens: float) -> float:
    """Prefill on 8 H200, straight between the profile's points."""
    return float(np.interp(tokens, SIZES, SECONDS))


def kv_bytes(tokens: float) -> float:
    """The KV cache of a prompt."""
    return float(np.interp(tokens, SIZES, MIB)) * 2**20


def site(decode: float = 1e9, local_rate: float = 1.63) -> CrossSite:
    """4 remote instances; the local side is given by its throughput, which is all that was published of it."""
    return CrossSite(LENGTHS, 4, 1, decode, remote_s, lambda tokens: 1 / local_rate, kv_bytes, 100e9 / 8)


def test_the_moments_of_cut_lengths() -> None:
    drawn = np.exp(np.random.default_rng(1).normal(9.9, 1.0, 2_000_000))
    drawn = drawn[(drawn >= 128) & (drawn <= 131_072)]
    assert LENGTHS.mean(128, 131_072) == pytest.approx(drawn.mean(), rel=0.005)
    assert LENGTHS.mean(128, 131_072) == pytest.approx(27_500, rel=0.03)
    assert LENGTHS.part(19_400, 131_072) == pytest.approx((drawn > 19_400).mean(), abs=0.002)


def test_the_published_split() -> None:
    """p = 0.496 at 19.4k, Θ of the remote side 1.61, the whole 3.24 req/s, egress 13 Gb/s."""
    found = site().at(19_400)
    assert LENGTHS.part(19_400, 131_072) == pytest.approx(0.496, rel=0.03)
    assert LENGTHS.mean(19_400, 131_072) == pytest.approx(45_000, rel=0.03)
    assert found.remote == pytest.approx(1.61, rel=0.03)
    assert found.whole == pytest.approx(3.24, rel=0.03)
    assert found.egress * 8 / 1e9 == pytest.approx(13, rel=0.1)


def test_sending_everything_away_is_slower() -> None:
    """The naive heterogeneous pair: 2.45 req/s, 4 instances over the mean of all lengths."""
    assert 4 / remote_s(LENGTHS.mean(128, 131_072)) == pytest.approx(2.45, rel=0.03)
    assert site().at(19_400).whole / 2.11 == pytest.approx(1.54, rel=0.03), "54 % more than the homogeneous 2.11"


def test_the_best_threshold_keeps_both_sides_busy() -> None:
    best = site().best()
    found = site().at(best)
    away = LENGTHS.part(best, 131_072)
    assert found.remote / away == pytest.approx(found.local / (1 - away))
    assert best == pytest.approx(19_400, rel=0.05)


@given(st.floats(200, 120_000))
def test_no_threshold_is_better_than_the_best(threshold: float) -> None:
    assert site().at(threshold).whole <= site().at(site().best()).whole * (1 + 1e-9)


def test_a_thin_link_or_few_decoders_bind() -> None:
    assert site(decode=2.0).at(19_400).whole == 2.0
    thin = CrossSite(LENGTHS, 4, 1, 1e9, remote_s, lambda _: 0.6, kv_bytes, 1e9 / 8)
    assert thin.at(19_400).remote == pytest.approx(1e9 / 8 / kv_bytes(LENGTHS.mean(19_400, 131_072)))
    with pytest.raises(UserError, match="leaves one side nothing"):
        site().at(100)
