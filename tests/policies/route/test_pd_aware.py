"""The map chooses the kind of replica; then the longest prefix in balance, and else the fewest requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Route
from poise.core.spec import Role
from poise.policies.route.pd_aware import PdAware
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_exact import compare

PROMPTS, RATIOS, HEAT = (100, 1000), (0.1, 1.0), ((2.0, -1.0), (-1.0, 3.0))
roles = st.sampled_from(["mixed", "prefill", "decode"])
replicas = st.lists(st.tuples(roles, st.integers(0, 4), st.sampled_from([0, 50, 90])), min_size=1, max_size=7).filter(
    lambda some: any(role != "decode" for role, *_ in some)
)


@given(replicas, st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 4))
def test_the_rule_on_any_cluster(some: list[tuple[Role, int, int]], heat: float, spread: int) -> None:
    """Written out: kind, balance, prefix, requests."""
    view = a_cluster(*[a_replica(role=role, requests=load, cached_tokens=hit) for role, load, hit in some])
    router = PdAware((1,), (0.0,), ((heat,),), spread)
    chosen = router.route(a_request(prompt_tokens=200, predicted_tokens=9, ids=(1,)), view, a_chance()).replica
    paired = any(role == "decode" for role, *_ in some)
    pairs = [at for at, (role, *_) in enumerate(some) if role == "prefill" and paired]
    colocated = [at for at, (role, *_) in enumerate(some) if role == "mixed"]
    able = [at for at, (role, *_) in enumerate(some) if role != "decode"]
    kind = (pairs if heat > 0 else colocated) if pairs and colocated and heat else pairs + colocated or able
    loads = [some[at][1] for at in kind]
    longest = max(some[at][2] for at in kind)
    rivals = [at for at in kind if some[at][2] == longest] if max(loads) - min(loads) <= spread else kind
    assert chosen in rivals and some[chosen][1] == min(some[at][1] for at in rivals)


@pytest.mark.parametrize(
    ("prompt", "predicted", "pair"),
    [(10, 5, True), (100, 11, True), (999, 999, False), (1000, 100, False), (5000, 5000, True), (5000, 0, None)],
)
def test_the_cell_of_a_request(prompt: int, predicted: int, pair: bool | None) -> None:
    """What lies below the first row or column belongs to it; without a prediction both kinds compete."""
    router = PdAware(PROMPTS, RATIOS, HEAT)
    view = a_cluster(a_replica(role="mixed"), a_replica(role="prefill"), a_replica(role="decode"))
    request = a_request(prompt_tokens=prompt, predicted_tokens=predicted, ids=())
    found = {router.route(request, view, a_chance(key=key)).replica for key in range(20)}
    assert found == ({0, 1} if pair is None else {int(pair)})


def test_a_decode_half_goes_to_the_fewest_requests() -> None:
    pair = [a_replica(role="prefill"), a_replica(role="decode", requests=2), a_replica(role="decode", requests=1)]
    assert PdAware().route(a_request(), a_cluster(*pair, stage="decode"), a_chance()) == Route(2)


def test_is_a_router() -> None:
    check_router(lambda: PdAware(PROMPTS, RATIOS, HEAT, 0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prompts": (9, 3)}, "do not rise"),
        ({"prompts": PROMPTS, "ratios": RATIOS, "heat": ((1.0,), (2.0, 3.0))}, r"give 2 rows \(prompts\) of 2"),
        ({"spread": -1}, "give 0 or more"),
    ],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PdAware(**parameters)  # type: ignore[arg-type]


@pytest.mark.deep
@given(cases())
@settings(max_examples=examples(40))
def test_fast_path_equals_reference(case: Case) -> None:
    compare(replace(case, router=lambda: PdAware((1, 8), (0.0,), ((1.0,), (-1.0,)), 1)))
