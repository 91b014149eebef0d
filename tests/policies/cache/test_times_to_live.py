"""How long a session's KV is kept while its tool runs, and what is learnt of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poise as ps
from poise.core.errors import PolicyError
from poise.core.request import NO_TOOL, Sequence
from poise.core.units import SECOND
from poise.policies.cache.continuum import Continuum, worthwhile
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.policies.cache.oracle_ttl import OracleTtl
from poise.policies.kit.programs import LEFT, Durations, Tools, Turns
from poise.policies.queue.program_fcfs import ProgramFcfs
from poise.testing import a_lane, a_request


def durations(*some: int) -> Durations:
    made = Durations()
    for each in some:
        made.add(each)
    return made


def ended(cache: Any, session: int, tool: int, *, turn: int = 0, prompt_tokens: int = 100) -> int:
    """What `keep` answers at the end of a request."""
    request = a_request(id=session, session=session, turn=turn, prompt_tokens=prompt_tokens)
    kept: int = cache.cache(request, Sequence(request, 1, tool=tool), a_lane())
    return kept


def test_the_worth_of_a_time_is_the_share_that_ends_by_it_less_the_time() -> None:
    assert worthwhile(durations(1, 2, 90), 100.0) == 2, "2/3 of 100 less 2, against 100 less 90"
    assert worthwhile(durations(1, 2, 30), 100.0) == 30
    assert worthwhile(durations(50, 60, 90), 40.0) == 0, "nothing ends before it is dearer than computing again"
    assert worthwhile(durations(), 40.0) == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_time_is_the_best_of_all_candidates(seed: int) -> None:
    some = np.random.default_rng(seed).lognormal(3, 2, 40).astype(int).tolist()
    benefit = 60.0
    best = max(sum(each <= ttl for each in some) / len(some) * benefit - ttl for ttl in [0, *some])
    ttl = worthwhile(durations(*some), benefit)
    assert sum(each <= ttl for each in some) / len(some) * benefit - ttl == pytest.approx(best)


def test_only_the_last_durations_count() -> None:
    kept = Durations(most=3)
    for each in (5, 1, 4, 2):
        kept.add(each)
    assert list(kept) == [1, 2, 4]


def test_eta_is_minus_the_correlation_of_turns_done_and_turns_to_come() -> None:
    rng = np.random.default_rng(1)
    programs = rng.integers(1, 12, 30).tolist()
    turns = Turns()
    for each in programs:
        turns.complete(each)
    done = np.concatenate([np.arange(1, each + 1) for each in programs])
    left = np.concatenate([each - np.arange(1, each + 1) for each in programs])
    assert turns.eta == pytest.approx(max(-np.corrcoef(done, left)[0, 1], 0.0))
    same = Turns()
    for _ in range(3):
        same.complete(7)
    assert same.eta == pytest.approx(1.0)
    assert Turns().eta == 1.0


def test_turns_that_foretell_nothing_have_an_eta_of_about_0() -> None:
    turns = Turns()
    for each in np.random.default_rng(2).geometric(0.1, 20_000).tolist():
        turns.complete(each)
    assert turns.eta < 0.05


def test_tools_are_distinguished_and_sessions_that_never_come_back_are_forgotten() -> None:
    tools = Tools()
    for session in range(LEFT + 5):
        tools.leave(session, session % 2, 0)
    tools.come_back(0, 10)
    tools.come_back(LEFT + 3, 30)
    tools.come_back(LEFT + 3, 40)
    assert list(tools.all) == [30]
    assert list(tools.of(1, 1)) == [30]
    assert list(tools.of(0, 1)) == [30], "an unknown tool is taken for all"


def test_a_session_that_calls_no_tool_is_let_go() -> None:
    for cache in (Continuum(), FixedTtl(3.0)):
        assert ended(cache, 1, NO_TOOL) == 0
        assert ended(cache, -1, 0) == 0
    assert ended(FixedTtl(3.0), 1, 0) == 3 * SECOND


def test_continuum_keeps_a_fixed_time_until_it_has_learnt() -> None:
    cache = Continuum(cold_ttl_s=2.0, cold=3)
    for session in range(3):
        assert ended(cache, session, 0) == 2 * SECOND
        cache.returned(a_request(session=session), 5 * SECOND)
    requeued = Sequence(a_request(session=1, turn=1), 1)
    cache.admitted(requeued, 100 * SECOND)
    assert ended(cache, 7, 0) == 5 * SECOND, "every tool took 5 s, and queueing again 100"


def test_the_oracle_waits_for_tools_that_are_worth_it() -> None:
    away = {1: 3 * SECOND, 2: 300 * SECOND, 3: -1}
    cache = OracleTtl()
    with pytest.raises(PolicyError, match="only a simulation"):
        ended(cache, 1, 0)
    cache.reveal(lambda request: away[request])
    cache.admitted(Sequence(a_request(session=9, turn=1), 1), 50 * SECOND)
    assert ended(cache, 1, 0) == 3 * SECOND + 1
    assert ended(cache, 2, 0) == 0
    assert ended(cache, 3, 0) == 0


@pytest.mark.parametrize("kind", [Continuum, FixedTtl, OracleTtl])
def test_the_last_to_begin_gives_way_first(kind: Any) -> None:
    early, late = (a_request(arrived_at=9, begun_at=at) for at in (1, 5))
    assert kind().gives_way(late) < kind().gives_way(early)


def jobs(seed: int = 0) -> Any:
    drawn = ps.workload.lognormal
    starts = ps.workload.poisson(0.1, requests=60, prompt_tokens=drawn(6000, 0.5), output_tokens=200, seed=seed)
    some = ps.workload.sessions(
        starts, turns=8, think_s=drawn(1.0, 2.0), user_tokens=drawn(8000, 0.8), output_tokens=200, max_context=130_000,
        seed=seed,
    )  # fmt: skip
    return ps.workload.with_tool(some, "tool")


def test_an_overloaded_engine_ends_programs_sooner_in_their_order_and_sooner_still_with_kv_kept() -> None:
    cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b")
    workload = jobs()
    bundles = [ps.Policies(), ps.Policies(queue=ProgramFcfs())]
    bundles += [ps.Policies(queue=ProgramFcfs(), cache=cache) for cache in (FixedTtl(), Continuum(cold=20))]
    programs = [ps.simulate(cluster, workload, each).program for each in bundles]
    mean = [each.mean or 0.0 for each in programs if each]
    assert mean[0] > mean[1] > max(mean[2], mean[3])


@pytest.mark.parametrize("kind", [lambda: Continuum(cold_ttl_s=-1), lambda: FixedTtl(-1.0), lambda: OracleTtl(-0.5)])
def test_what_is_no_duration_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        kind()
