"""Chameleon's cache: the adapter of least value leaves."""

from __future__ import annotations

from poise.core.policy import IdleAdapter
from poise.policies.cache.chameleon import Chameleon

IDLE = [IdleAdapter(0, 100, 9, 50), IdleAdapter(1, 400, 1, 0), IdleAdapter(2, 100, 8, 90)]


def test_each_weight_alone_evicts_the_least_used_the_oldest_or_the_smallest() -> None:
    assert Chameleon(1, 0, 0).evict_adapter(IDLE, 100) == 1
    assert Chameleon(0, 1, 0).evict_adapter(IDLE, 100) == 1
    assert Chameleon(0, 0, 1).evict_adapter(IDLE, 100) == 0, "of equals the one idle for longest"


def test_the_published_weights_keep_a_large_adapter_over_a_small_one() -> None:
    """Values: 0.45 + 0.05 + 0.1125; 0.05 + 0 + 0.45; 0.4 + 0.09 + 0.1125."""
    assert Chameleon().evict_adapter(IDLE, 100) == 1
    assert Chameleon().evict_adapter([*IDLE[:1], IDLE[1]._replace(uses=5)], 100) == 0
