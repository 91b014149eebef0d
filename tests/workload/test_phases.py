"""Phases of load, prefixes by tenant, and tools that hang."""

from __future__ import annotations

import numpy as np
import pytest

import poise as ps
from poise.core.errors import ScenarioError
from poise.core.request import NO_TOOL
from poise.workload import phases, with_tool

STEPS = [
    {"rate": 20.0, "duration_s": 50.0, "prompt_tokens": 300, "output_tokens": 10},
    {"rate": 5.0, "duration_s": 100.0, "prompt_tokens": 30, "output_tokens": 100},
]


def test_each_phase_has_its_own_rate_and_lengths() -> None:
    found = phases(STEPS, seed=1).check()
    early = found.arrival < 50 * 10**12
    assert set(found.prompt[early]) == {300} and set(found.prompt[~early]) == {30}
    assert 900 < early.sum() < 1100 and 420 < (~early).sum() < 580
    assert found.arrival[-1] < 150 * 10**12
    assert found.source["rate"] == len(found) / 150


def test_seeds_share_no_phase() -> None:
    same = [{"rate": 5.0, "duration_s": 20.0}] * 2
    first, second = (np.diff(phases(same, seed=seed).arrival) for seed in (0, 1))
    assert not np.isin(first, second).any()


def test_no_phase_and_no_time_are_refused() -> None:
    with pytest.raises(ScenarioError, match="there is no phase; give one or more"):
        phases([])
    with pytest.raises(ScenarioError, match="duration_s is -1"):
        phases([{"rate": 1.0, "duration_s": -1.0}])


def test_prefixes_are_shared_out_among_tenants() -> None:
    base = ps.workload.poisson(5, requests=400, prompt_tokens=10)
    found = ps.workload.shared_prefixes(base, groups=8, prefix_tokens=100, tenants=4).check()
    assert found.tenant is not None and found.prefixes is not None
    assert set(found.tenant) == {0, 1, 2, 3}
    owners = {(int(each), int(tenant)) for each, tenant in zip(found.prefixes.ids, found.tenant, strict=True)}
    assert len(owners) == 8  # each prefix is of one tenant
    assert ps.workload.shared_prefixes(base, groups=8, prefix_tokens=100).tenant is None


def test_every_answer_but_the_last_calls_the_tool() -> None:
    chats = ps.workload.sessions(ps.workload.poisson(1, requests=30), turns=4, think_s=2)
    found = with_tool(chats, "search").check()
    assert found.tool is not None and found.session is not None and found.tools == ("search",)
    calls = np.bincount(found.session, found.tool != NO_TOOL)
    assert (calls == 3).all()
    assert found.delay is not None and chats.delay is not None
    assert (found.delay == chats.delay).all()


def test_some_calls_hang() -> None:
    chats = ps.workload.sessions(ps.workload.poisson(1, requests=300), turns=4, think_s=2)
    found = with_tool(chats, "search", hung=0.1, hung_s=500, seed=2)
    assert found.delay is not None and chats.delay is not None
    hung = found.delay == 500 * 10**12
    assert 0.05 < hung[chats.delay > 0].mean() < 0.15
    assert not hung[chats.delay == 0].any() and (found.delay[~hung] == chats.delay[~hung]).all()


def test_a_tool_needs_sessions() -> None:
    with pytest.raises(ScenarioError, match="there are no sessions"):
        with_tool(ps.workload.poisson(1, requests=3), "search")
