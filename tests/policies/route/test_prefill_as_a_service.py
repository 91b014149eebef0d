"""Which side a prompt goes to, the threshold beside the closed form, and links that a pool has of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.records.records import FINISHED
from poise.core.spec import Cluster, Engine, Pool, Role
from poise.cost.cross_site import CrossSite, Lengths
from poise.policies import Policies
from poise.policies.find import build
from poise.policies.route.prefill_as_a_service import PrefillAsAService
from poise.scenario.simulate import simulate
from poise.sim.network import Network
from poise.testing import a_chance, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from poise.testing.cost import LinearCost
from poise.workload import constant
from tests.sim.cases import DEVICE, MODEL, Case, cases
from tests.sim.test_exact import compare

PREFILL, DECODE, MIXED = a_replica(role="prefill"), a_replica(role="decode"), a_replica()
LOST = PREFILL._replace(able=False)


class Sites(ClusterColumns):
    """Replicas 0 and 1 are away: 1,000 tokens take 0.1 s between them and the others, else 1 ms."""

    def kv_seconds(self, tokens: int, source: int, target: int) -> float:
        return tokens * (1e-4 if min(source, target) < 2 <= max(source, target) else 1e-6)


def sent(router: PrefillAsAService, tokens: int, *replicas: ReplicaColumns) -> int:
    view = Sites(replicas or (PREFILL, LOST, PREFILL, DECODE), needs=router.needs)
    return router.route(a_request(prompt_tokens=tokens, ids=(1,), ends=(tokens,)), view, a_chance()).replica


def test_longer_than_the_threshold_goes_away() -> None:
    router = PrefillAsAService(500)
    assert [sent(router, tokens) for tokens in (1, 500, 501, 9000)] == [2, 2, 0, 0]


def test_what_is_cached_at_home_does_not_count_and_what_is_cached_away_does() -> None:
    warm = PREFILL._replace(cached_tokens=100)
    assert sent(PrefillAsAService(500), 600, PREFILL, LOST, warm, DECODE) == 2
    assert sent(PrefillAsAService(500), 601, PREFILL, LOST, warm, DECODE) == 0
    assert sent(PrefillAsAService(500), 501, warm, LOST, PREFILL, DECODE) == 0


def test_of_a_side_who_has_the_least_work() -> None:
    busy, fast = PREFILL._replace(queued_tokens=900), PREFILL._replace(queued_tokens=950, prefill_rate=20_000.0)
    assert sent(PrefillAsAService(500), 600, busy, fast, PREFILL, DECODE) == 1
    assert sent(PrefillAsAService(500), 400, PREFILL, PREFILL, busy, fast, DECODE) == 3


@pytest.mark.parametrize(
    "replicas", [(LOST, LOST, PREFILL, DECODE), (LOST, LOST, MIXED, LOST), (LOST, LOST, MIXED, DECODE)]
)
def test_without_a_prefill_service_all_stays(replicas: tuple[ReplicaColumns, ...]) -> None:
    assert [sent(PrefillAsAService(500), tokens, *replicas) for tokens in (1, 9000)] == [2, 2]


def test_without_a_home_replica_all_goes_away() -> None:
    assert [sent(PrefillAsAService(500), tokens, PREFILL, LOST, LOST, DECODE) for tokens in (1, 9000)] == [0, 0]


def test_a_mixed_replica_at_home_is_home() -> None:
    assert [sent(PrefillAsAService(500), tokens, PREFILL, LOST, MIXED, DECODE) for tokens in (1, 9000)] == [2, 0]


def test_the_decode_half_goes_to_the_fewest_requests() -> None:
    view = ClusterColumns([DECODE._replace(requests=2), DECODE._replace(requests=1)], stage="decode")
    assert PrefillAsAService().route(a_request(), view, a_chance()).replica == 1


@pytest.mark.parametrize("rate_away", [40_000.0, 2_000.0])
def test_the_threshold_that_it_finds_is_that_of_the_closed_form(rate_away: float) -> None:
    """Lengths of the paper; the other site is bound by its link (10,000 tokens/s) in the one case, else by itself."""
    lengths = Lengths(9.90, 1.00, 128, 131_072)
    closed = CrossSite(
        lengths,
        1,
        1,
        1e9,
        lambda tokens: tokens / rate_away,
        lambda tokens: tokens / 12_000.0,
        lambda tokens: tokens,
        1e4,
    )
    drawn = np.exp(np.random.default_rng(3).normal(9.9, 1.0, 4000))
    router = PrefillAsAService(window=4000, every=100)
    away, home = PREFILL._replace(prefill_rate=rate_away), PREFILL._replace(prefill_rate=12_000.0)
    prompts = [int(each) for each in drawn if 128 <= each <= 131_072]
    far = [sent(router, tokens, away, LOST, home, DECODE) == 0 for tokens in prompts]
    assert router._found == pytest.approx(closed.best(), rel=0.05)
    assert np.mean(far[1000:]) == pytest.approx(lengths.part(closed.best(), lengths.high), abs=0.03)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.sampled_from((1, 5, 1000)))
def test_below_the_threshold_home_would_be_the_less_busy(prompts: list[int], window: int) -> None:
    """Home takes 10,000 tokens a second, the other site's link as many; only the last `window` prompts count."""
    router = PrefillAsAService(window=window, every=1)
    for tokens in prompts:
        sent(router, tokens)
    known = prompts[-window:]

    def work(limit: int) -> tuple[int, int]:
        return sum(each for each in known if each <= limit), sum(each for each in known if each > limit)

    home, away = work(router._found)
    assert router._found in known and home >= away - router._found * known.count(router._found)
    below, above = work(router._found - 1)
    assert below < above


@pytest.mark.parametrize("name", ["threshold", "window", "every"])
def test_parameters_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(ScenarioError, match=rf"router.prefill_as_a_service: {name} -1 is too small; give [01] or more"):
        build("router", "prefill_as_a_service", {name: -1})


# Links of a pool -----------------------------------------------------------------------------------------------------


class Cost:
    """Steps of 10 ms, prompts of 0.1 ms a token; a token's KV is 1,000 bytes."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.01, prompt_s=1e-4)


def a_pool(role: Role, link_bw: float = 0.0) -> Pool:
    return Pool(MODEL, DEVICE, role=role, engine=Engine(kv_blocks=1000, token_budget=4096), link_bw=link_bw)


def test_a_pool_has_a_link_of_its_own_or_the_clusters() -> None:
    pools = (a_pool("prefill", 2e5), a_pool("prefill"), a_pool("decode"))
    assert Network.of(Cluster(pools, link_bw=1e9)).bandwidth == [2e5, 1e9, 1e9]
    assert Network.of(Cluster(pools)).bandwidth == [2e5, DEVICE.scaleout_bw, DEVICE.scaleout_bw]


def test_long_prompts_come_back_over_the_thin_link() -> None:
    """2,000 tokens of KV take 2 s over 1 MB/s, and 2 ms over 1 GB/s; the router sees that from the pools alone."""
    cluster = Cluster((a_pool("prefill", 1e6), a_pool("prefill"), a_pool("decode")), link_bw=1e9)
    firsts = {}
    for tokens in (200, 2000):
        load = constant(0.1, requests=3, prompt_tokens=tokens, output_tokens=2)
        records = simulate(cluster, load, Policies(router=PrefillAsAService(1000)), cost=Cost()).records
        assert set(records.status) == {FINISHED}
        assert set(records.replica) == {0 if tokens > 1000 else 1} and set(records.decode_replica) == {2}
        firsts[tokens] = (records.first_token_at[0] - records.arrived_at[0]) / 1e12
    assert firsts[200] < 0.1
    assert 2.2 < firsts[2000] < 2.3


@given(cases(), st.integers(0, 40), st.sampled_from((0.1, 10.0)))
@settings(max_examples=30)
def test_fast_path_equals_reference(case: Case, threshold: int, part: float) -> None:
    """The first pool of pairs is at another site."""
    first, *others = case.cluster.pools
    if others:
        first = replace(first, link_bw=case.cluster.link_bw * part)
    cluster = replace(case.cluster, pools=(first, *others))
    compare(replace(case, cluster=cluster, router=partial(PrefillAsAService, threshold, window=10, every=3)))
