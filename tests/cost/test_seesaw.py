"""Changing layouts: rounds that add up, limits without a store, and layouts that suit their phase."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from poise.catalogue import device, model
from poise.core.spec import Engine, Pool
from poise.cost.seesaw import Load, Offline, layouts, name

POOL = Pool(model("llama-2-70b"), device("L4"), engine=Engine(max_sequences=512, token_budget=2048))
CHOICES = list(layouts(POOL, 8))
WORK = Offline(Load(2000, 200), host_bytes=8 * 80e9)


def test_layouts_are_those_that_fit() -> None:
    assert [name(each) for each in CHOICES] == ["P8", "T2P4", "T4P2", "T8"]
    assert list(layouts(POOL, 2)) == []


def test_a_round_adds_up() -> None:
    one, two = CHOICES[0], CHOICES[-1]
    round_ = WORK.seesaw(one, two)
    assert round_.requests == pytest.approx(8 * 80e9 / (2000 * 80 * 2 * 8 * 128 * 2))
    assert round_.change_s == pytest.approx(2 * one.model.weight_bytes(16) / 8 / 32e9)
    assert round_.rate * sum(round_[:3]) == pytest.approx(round_.requests)
    assert round_.prefill_s >= round_.requests * WORK.prefill_s(one)


def test_changes_are_all_kv_over_the_host() -> None:
    per = 2000 * POOL.model.kv_bytes_per_token(16)
    whole = int(8 * 80e9 // per)
    assert WORK.changes(whole, POOL) == 2 and WORK.changes(10 * whole, POOL) in (20, 22)
    assert replace(WORK, host_bytes=4 * 80e9).changes(10 * whole, POOL) >= 38


def test_stages_suit_prompts_and_tensor_groups_decoding() -> None:
    prompts = [WORK.prefill_s(each) for each in CHOICES]
    assert prompts == sorted(prompts)
    assert WORK.best(CHOICES)[0].pipeline > WORK.best(CHOICES)[1].pipeline


def test_the_best_pair_is_the_best_of_all() -> None:
    best = WORK.seesaw(*WORK.best(CHOICES)).rate
    assert best == max(WORK.seesaw(*pair).rate for pair in product(CHOICES, CHOICES))


def test_a_larger_store_changes_less_often() -> None:
    rates = [replace(WORK, host_bytes=8 * each).seesaw(*WORK.best(CHOICES)).rate for each in (1e9, 10e9, 80e9)]
    assert rates == sorted(rates) and rates[0] < rates[-1]
