"""Two layouts and a store: what steps and changes cost, and which layouts are taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline, kv_blocks
from poise.cost.seesaw import Load, Offline, layouts, name
from poise.cost.term import Termed, held
from poise.cost.terms.nanoflow import NanoFlow
from poise.cost.terms.seesaw import Reshaped, Seesaw

POOL = Pool(model("llama-2-70b"), device("L4"), tensor=8, engine=Engine(token_budget=2048))
CHOICES = {name(each): each for each in layouts(POOL, 8)}


def built(term: Seesaw, pool: Pool = POOL) -> Reshaped:
    cost = Termed(Roofline(), (term,))
    found = cost.build(held(cost, pool))
    assert isinstance(found, Reshaped)
    return found


def test_each_phase_costs_what_it_does_under_its_layout() -> None:
    reshaped = built(Seesaw("P8", "T4P2"))
    prompts = StepShape(0, (Chunk(2048, 0),))
    assert reshaped.step(prompts) == Roofline().build(CHOICES["P8"]).step(prompts)
    assert reshaped.step(StepShape(9)) == Roofline().build(CHOICES["T4P2"]).step(StepShape(9))
    with pytest.raises(ScenarioError, match="prompts or decodes"):
        reshaped.step(StepShape(1, (Chunk(1, 0),)))


def test_prompts_wait_for_their_kv_over_a_slow_link() -> None:
    slow = replace(POOL, device=replace(POOL.device, host_bw=1e6, scaleup_bw=16e9, scaleup_domain=8))
    moved = 2048 * POOL.model.kv_bytes_per_token(16) / 8e6 * SECOND
    reshaped = built(Seesaw("P8", "T8"), slow)
    assert reshaped.step(StepShape(0, (Chunk(2048, 0),))).base == pytest.approx(moved)
    assert reshaped.step(StepShape(0, (Chunk(2048, 4096),))).base == pytest.approx(2 * moved)
    assert reshaped.step(StepShape(0, (Chunk(2048, 4096, 0, 40),))).base == pytest.approx(moved)


def test_the_store_is_the_hosts_and_what_decodes_is_the_devices() -> None:
    reshaped = built(Seesaw("P8", "T8", host_gb=10.0))
    block = POOL.model.kv_bytes_per_token(16) * 16
    assert held(Termed(Roofline(), (Seesaw(host_gb=10.0),)), POOL).engine.kv_blocks == int(8 * 10e9 / block)
    work = Offline(Load(1, 1), 8e10)
    changes = [round(work.change_s(each) * SECOND) for each in (CHOICES["P8"], CHOICES["T8"])]
    assert reshaped.store == (kv_blocks(CHOICES["T8"]), 256, *changes, round(block / (8 * 32e9) * SECOND))


def test_one_layout_for_both_needs_no_change() -> None:
    assert built(Seesaw("T8", "T8")).store[2:4] == (0, 0)


@pytest.mark.parametrize("load", [Load(3000, 200), Load(300, 250)])
def test_the_best_pair_is_that_of_the_closed_form(load: Load) -> None:
    found = built(Seesaw(prompt_tokens=load.prompt, output_tokens=load.output))
    best = Offline(load, 8 * 80e9).best(list(CHOICES.values()))
    assert [name(each) for each in found.layouts] == [name(each) for each in best]
    (given, other) = built(Seesaw(decode="T2P4", prompt_tokens=load.prompt, output_tokens=load.output)).layouts
    assert name(other) == "T2P4" and name(given) in CHOICES


def test_other_terms_are_called_under_both_layouts() -> None:
    cost = Termed(Roofline(), (NanoFlow(), Seesaw("P8", "T8")))
    inner = Termed(Roofline(), (NanoFlow(),))
    found = cost.build(POOL)
    assert found.step(StepShape(64)) == inner.build(CHOICES["T8"]).step(StepShape(64))
    prompts = StepShape(0, (Chunk(2048, 0),))
    assert found.step(prompts).base == inner.build(CHOICES["P8"]).step(prompts).base


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (replace(POOL, role="prefill"), "give mixed"),
        (replace(POOL, device=replace(POOL.device, host_bw=0.0)), "give host_gb_s"),
        (replace(POOL, tensor=2), "in no layout"),
    ],
)
def test_pools_that_cannot_change(pool: Pool, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        built(Seesaw(), pool)
