"""`check_lender` lets a sound lender pass and names the rule that an unsound one breaks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from poise.core.action import Lend
from poise.core.view import ClusterView
from poise.testing import RuleBroken, check_lender


class Sound:
    """The emptiest lends to the fullest, and gets it back later; what those below break one rule of."""

    needs: Any = ("free_blocks",)

    def lend(self, cluster: ClusterView) -> Any:
        free = cluster.free_blocks
        back = [Lend(*pair, -blocks) for pair, blocks in cluster.loans.items()]
        full, empty = free.index(min(free)), free.index(max(free))
        return back or [Lend(full, empty, 10)] if full != empty else []


class Undeclared(Sound):
    needs = ()


class Random(Sound):
    def lend(self, cluster: ClusterView) -> Any:
        return [Lend(0, 1, random.randint(1, 10**9))]


class Greedy(Sound):
    def lend(self, cluster: ClusterView) -> Any:
        return [Lend(*pair, -blocks - 1) for pair, blocks in cluster.loans.items()] or [Lend(0, 1, 5)]


class Selfish(Sound):
    def lend(self, cluster: ClusterView) -> Any:
        return [Lend(1, 1, 5)]


class Silent(Sound):
    def lend(self, cluster: ClusterView) -> Any:
        return None


class Meddling(Sound):
    def lend(self, cluster: ClusterView) -> Any:
        cluster.loans[0, 1] = 5  # type: ignore[index]
        return []


def test_a_sound_lender_passes() -> None:
    check_lender(Sound)


@pytest.mark.parametrize(
    ("lender", "message"),
    [
        (Undeclared, "add 'free_blocks'"),
        (Random, "keep no state outside the object and draw no chance"),
        (Greedy, "are lent"),
        (Selfish, "name two of"),
        (Silent, "must be a list of Lend"),
        (Meddling, r"changed `cluster.loans`"),
    ],
)
def test_an_unsound_lender_is_reported(lender: type, message: str) -> None:
    with pytest.raises(RuleBroken, match=message):
        check_lender(lender)
