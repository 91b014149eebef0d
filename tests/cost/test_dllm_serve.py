"""Diffusion serving: every step of every request once, within budget and memory, and phases that mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.estimate import StepShape
from poise.core.units import SECOND
from poise.cost.dllm_serve import (
    Aligned,
    Composer,
    Denoising,
    Memory,
    Multiplexed,
    Request,
    Running,
    serve,
)
from poise.testing.cost import LinearCost

COST = LinearCost(step_s=0.01, prompt_s=1e-5)
ROOM = Memory(free=1e9, kv=1000, logit=0)
SHORT = Denoising(block=8, steps=4, every=2)

arrivals = st.lists(
    st.builds(Request, st.integers(1, 200), st.integers(1, 60), st.floats(0, 5)), min_size=1, max_size=12
).map(lambda each: sorted(each, key=lambda request: request.at_s))


class Watched:
    """A composer that keeps what it chose."""

    def __init__(self, inner: Composer) -> None:
        self.inner, self.chosen = inner, list[list[int]]()

    def compose(self, running: Sequence[Running], budget: int) -> list[Running]:
        found = self.inner.compose(running, budget)
        self.chosen.append([each.tokens for each in found])
        return found


@settings(deadline=None)
@given(arrivals, st.sampled_from((Aligned, Multiplexed)), st.booleans(), st.integers(1, 500))
def test_every_step_is_done_once(requests: list[Request], kind: type[Composer], static: bool, budget: int) -> None:
    watched = Watched(kind())
    found = serve(requests, watched, COST, ROOM, SHORT, budget, static)
    steps = sum(len(list(SHORT.work(each))) for each in requests)
    assert sum(map(len, watched.chosen)) == steps and len(found.latencies) == len(requests)
    for request, latency in zip(requests, found.latencies, strict=True):
        assert latency >= len(list(SHORT.work(request))) * 0.01 - 1e-9
    if kind is Multiplexed:
        assert all(sum(chosen) <= budget or len(chosen) == 1 for chosen in watched.chosen)


def test_work_of_a_request() -> None:
    """Two blocks of four steps over 21 tokens, every second step a refresh."""
    assert list(SHORT.work(Request(10, 11))) == [(21, 0), (8, 21)] * 4


def test_sparse_kv_is_read_in_part_and_refreshed_whole() -> None:
    """A head keeps half of what it refreshed; a block is computed as before."""
    assert list(replace(SHORT, kept=0.5).work(Request(10, 10))) == [(20, 0), (8, 10)] * 4


def test_a_cap_on_logits_leaves_memory_to_requests() -> None:
    many = [Request(100, 100)] * 10
    assert not Memory(1e6, kv=100, logit=1000).fits(many)
    assert Memory(1e6, kv=100, logit=1000, cap=1e5).fits(many)
    assert not Memory(1e5, kv=100, logit=0).fits(many)


def test_one_request_takes_its_steps_by_hand() -> None:
    found = serve([Request(10, 8)], Multiplexed(), COST, ROOM, SHORT)
    alone = sum(COST.step(StepShape(0)).base / SECOND + 1e-5 * tokens for tokens in (18, 8, 18, 8))
    assert found.latencies == [pytest.approx(alone)] and found.ends_s == pytest.approx(alone)


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="does not fit"):
        serve([Request(10, 8)], Multiplexed(), COST, Memory(10, 100, 0), SHORT)
    with pytest.raises(UserError, match="give 1"):
        Denoising(every=0)
    with pytest.raises(UserError, match="above 0 up to 1"):
        Denoising(kept=0)
