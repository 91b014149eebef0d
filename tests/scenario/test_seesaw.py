"""Seesaw in the simulator: against its closed form, with routers and faults, and combinations that are wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.core.estimate import StepShape
from poise.core.records.records import FINISHED
from poise.core.spec import Cluster, Engine, Fault, Lane, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.seesaw import MICROBATCH, Load, Offline
from poise.cost.term import Termed, held
from poise.cost.terms.seesaw import Reshaped
from poise.cost.terms.seesaw import Seesaw as Term
from poise.policies import Policies
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.batch.seesaw import Seesaw
from poise.policies.find import build
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving
from poise.testing.invariants import check_blame
from poise.workload import all_at_once, lognormal, poisson

ENGINE = Engine(max_sequences=10_000, prefix_caching=False)
POOL = Pool(model("llama-3.1-8b"), device("A10"), tensor=2, engine=ENGINE)
PHASES = Policies(batcher=Seesaw())


def measured(pool: Pool, term: Term, load: Load, rows: int) -> tuple[float, Reshaped]:
    """Seconds until equal requests that come at once have ended, and the cost by which they did."""
    cost = Termed(Roofline(), (term,))
    estimator = cost.build(held(cost, pool))
    assert isinstance(estimator, Reshaped)
    requests = all_at_once(requests=rows, prompt_tokens=load.prompt, output_tokens=load.output)
    run = simulate(Cluster((pool,)), requests, PHASES, cost=cost)
    assert set(run.records.status) == {FINISHED} and not sum(run.records.preemptions)
    return max(run.records.ended_at) / SECOND, estimator


@pytest.mark.parametrize(("load", "host_gb"), [(Load(3000, 200), 80.0), (Load(300, 250), 20.0)])
def test_full_rounds_take_what_the_closed_form_says(load: Load, host_gb: float) -> None:
    """Three fills of a large store: what begins and ends a round is little beside it."""
    card = replace(device("A10"), host_bw=16e9, scaleup_bw=16e9)
    engine = replace(ENGINE, token_budget=8 * MICROBATCH, max_sequences=30_000)
    pool = Pool(model("llama-2-70b"), card, tensor=8, engine=engine)
    term = Term(host_gb=host_gb, prompt_tokens=load.prompt, output_tokens=load.output, sequences=512)
    work = Offline(load, host_gb * 1e9 * 8)
    _, estimator = measured(pool, term, load, 1)
    round_ = work.seesaw(*estimator.layouts)
    rows = 3 * int(round_.requests)
    took, _ = measured(pool, term, load, rows)
    assert rows / took == pytest.approx(round_.rate, rel=0.03)


@given(
    st.integers(20, 120), st.integers(20, 300), st.sampled_from((8.0, 12.0)), st.sampled_from((0.05, 1.0)),
    st.sampled_from((("P2", "T2"), ("T2", "T2"), ("P2", "P2"))),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_small_rounds_are_within_their_bounds(
    sixteens: int, output: int, host_gb: float, link: float, layouts: tuple[str, str]
) -> None:
    """Three small fills, where a round's begin and end count.

    Prompts: what the closed form says, and at most a step more a round. Decodes: as if as many as ever fit ran at once
    with a prompt's context at least; as if as many as fit when they end did at most, with that of a whole request, and
    the time of one more a round while the last ones end. Copies: at least once each, beside the decodes; at most as
    often again as growing by all outputs drives prompts out, each then up to a whole request, and none beside them.
    Prompts leave room in the store for what the devices hold, so there are more rounds than fills.
    """
    load = Load(16 * sixteens, output)
    card = replace(POOL.device, host_bw=POOL.device.host_bw * link, scaleup_bw=POOL.device.host_bw)
    together = 2 * -(-MICROBATCH // load.prompt)
    engine = replace(ENGINE, token_budget=together * load.prompt, memory_fraction=0.5)
    pool = replace(POOL, device=card, engine=engine)
    work = Offline(load, host_gb * 1e9 * 2)
    fill = work.host_bytes / (load.prompt * POOL.model.kv_bytes_per_token(16))
    rows = 3 * int(fill)
    took, estimator = measured(pool, Term(*layouts, host_gb=host_gb), load, rows)
    prefill, store = estimator.layouts[0], estimator.store
    left = 1 - store.blocks * 16 * POOL.model.kv_bytes_per_token(16) / work.host_bytes
    rounds = -(-rows // int(fill * left * sixteens / (sixteens + 1)))
    prompts = work.prefill_s(prefill)
    whole = -(-(load.prompt + output) // 16) + 1
    copy = rows * sixteens * store.block / SECOND
    changes = (store.to_prefill + store.to_decode) / SECOND

    def decodes(running: int, context: int) -> float:
        running = max(1, min(running, store.sequences))
        piece = estimator.step(StepShape(running))
        return rows * output * (piece.base + piece.per_kv * running * context) / running / SECOND

    fewest, most = decodes(store.blocks // whole, load.prompt + output), decodes(store.blocks // sixteens, load.prompt)
    again = (1 + (output + 32) / load.prompt) ** 2
    last = decodes(1, load.prompt + output) / rows
    assert took >= rows * prompts * 0.99 + max(most, copy) * (1 - 1 / output)
    assert took <= rows * prompts + fewest + copy * again + rounds * (changes + last + together * prompts)


TINY = Termed(Roofline(), (Term("P2", "T2", host_gb=1.0),))
"""A store of some twenty requests, so that a short run changes its layout many times."""


@pytest.mark.parametrize("router", ["cache_aware", "llumnix"])
def test_no_request_is_lost_with_a_replica_that_goes_in_the_middle(router: str) -> None:
    """Every request ends, held or by single steps, and the parts of its time add up."""
    pool = replace(POOL, replicas=2, engine=Engine(max_sequences=1000))
    faults = (Fault(8.0, "lost", 1), Fault(20.0, "join", 1))
    requests = poisson(6, requests=150, prompt_tokens=lognormal(1500, 1.0), output_tokens=lognormal(150, 0.6), seed=5)
    policies = Policies(router=build("router", router), batcher=Seesaw())
    fast, slow = (
        simulate(
            Cluster((pool,), faults=faults), requests, policies, cost=TINY, one_step=one_step, saving=Saving(blame=True)
        )
        for one_step in (False, True)
    )
    assert set(fast.records.status) == {FINISHED} and fast.records.ended_at == slow.records.ended_at
    assert fast.blame == slow.blame
    check_blame(fast)


@pytest.mark.parametrize(
    ("policies", "engine", "message"),
    [
        (Policies(), ENGINE, "Chunked mixes prompts and decodes, .* `batcher: seesaw`"),
        (Policies(batcher=PrefillFirst()), ENGINE, "PrefillFirst mixes prompts"),
        (
            PHASES,
            Engine(lanes=(Lane("p", decode=False), Lane("d", prefill=False))),
            "has 2 lanes: give engine.lanes one",
        ),
    ],
)
def test_combinations_that_cannot_be(policies: Policies, engine: Engine, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        simulate(Cluster((replace(POOL, engine=engine),)), poisson(1, requests=1), policies, cost=TINY)


TEXT = """\
model: llama-3.1-8b
cluster:
  pools: [{device: A10, tensor: 2, replicas: 3}]
  faults: [{at_s: 5, kind: lost, replica: 1}]
engine: {max_sequences: 2000}
workload: {poisson: {rate: 6, requests: 60, prompt_tokens: 1500, output_tokens: 100}}
policies: {router: llumnix, batcher: seesaw}
cost: {terms: [nanoflow, {seesaw: {host_gb: 2}}]}
"""


def test_it_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With another term, a router that migrates, and a loss."""
    path = tmp_path / "scenario.yaml"
    path.write_text(TEXT, encoding="utf-8")
    assert main(["simulate", str(path), "--out", str(tmp_path / "out"), "--blame"]) == 0
    assert "60" in capsys.readouterr().out
    again = (tmp_path / "out" / "scenario.resolved.yaml").read_text(encoding="utf-8")
    assert "host_gb: 2" in again
