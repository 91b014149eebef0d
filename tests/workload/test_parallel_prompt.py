"""Prompts with items, in every way the same work: what is shared, what is summed, and who stays as he was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.workload import Workload, closed, poisson, sessions, uniform
from poise.workload.parallel_prompt import WAYS, fan_out
from tests.workload.trees import extents


def _three(seed: int, requests: int) -> tuple[Workload, Workload, Workload, Workload]:
    base = poisson(5.0, requests=requests, prompt_tokens=uniform(5, 900), output_tokens=uniform(2, 90), seed=seed)
    lengths = {"context_tokens": uniform(10, 50), "item_tokens": uniform(1, 9), "output_tokens": uniform(1, 9)}
    serial, parallel, apart = (fan_out(base, way, share=0.4, seed=seed, **lengths).check() for way in WAYS)
    return base, serial, parallel, apart


@given(st.integers(0, 99), st.integers(1, 30))
def test_every_way_asks_for_the_same(seed: int, requests: int) -> None:
    base, serial, parallel, apart = _three(seed, requests)
    assert len(serial) == len(base) and (serial.arrival == base.arrival).all()
    assert (parallel.prompt == apart.prompt).all() and apart.prefixes is None and serial.prefixes is None
    assert serial.session is not None and parallel.session is not None
    for program in set(serial.session[serial.session >= 0].tolist()):
        (one,), many = np.flatnonzero(serial.session == program), np.flatnonzero(parallel.session == program)
        assert serial.output[one] == parallel.output[many].sum() and 2 <= len(many) <= 10
        assert (parallel.arrival[many] == serial.arrival[one]).all()
        (begin,) = {tuple(extents(parallel, row)) for row in many.tolist()}
        ((_, context),) = begin
        assert serial.prompt[one] == context + (parallel.prompt[many] - context).sum()


@given(st.integers(0, 99), st.integers(1, 30))
def test_the_others_stay_as_they_were(seed: int, requests: int) -> None:
    base, serial, parallel, _ = _three(seed, requests)
    assert serial.session is not None and parallel.session is not None
    alone = serial.session < 0
    kept = parallel.session < 0
    for name in ("arrival", "prompt", "output"):
        assert (getattr(parallel, name)[kept] == getattr(base, name)[alone]).all()
    assert all(not extents(parallel, row) for row in np.flatnonzero(kept).tolist()) or parallel.prefixes is None


def test_the_share_is_kept() -> None:
    made = fan_out(poisson(5.0, requests=5000, seed=1), "serial", seed=1)
    assert made.session is not None and 0.09 < (made.session >= 0).mean() < 0.117


@pytest.mark.parametrize(
    ("base", "way", "share", "message"),
    [
        (poisson(1.0, requests=2), "paralel", 0.1, "way is 'paralel'; give one of"),
        (poisson(1.0, requests=2), "serial", 1.5, r"share is 1.5; it must be in \(0, 1\]"),
        (closed(2, requests=3), "serial", 0.1, "needs open load"),
        (sessions(poisson(1.0, requests=2)), "serial", 0.1, "needs open load"),
    ],
)
def test_what_cannot_be_is_refused(base: Workload, way: str, share: float, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        fan_out(base, way, share=share)  # type: ignore[arg-type]
