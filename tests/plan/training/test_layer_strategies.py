"""What Galvatron's programme chooses from: layers that differ, shared sequences, overlap, and embedding and head."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, shape
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.galvatron import choose
from poise.plan.training.galvatron_tried import compared
from poise.plan.training.layer_strategies import Strategy, ends, overlapped, strategies
from poise.plan.training.layerwise import layerwise
from poise.plan.training.space import Space

JOB = Job(shape(4, 4096, 32), device("A100"), 8, 2048, 32)
PLAIN = [Layout(data=8, zero=1), Layout(data=8, zero=3), Layout(tensor=4, data=2), Layout(data=8, recompute="full")]


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 1.0])
def test_the_programme_on_layers_that_differ_is_what_trying_all_finds(part: float) -> None:
    models = [shape(4, width, 32) for width in (2048, 4096, 4096, 6144)]
    given = [*PLAIN, Strategy(Layout(tensor=4, data=2), shared=True)]
    time, held, reshard = strategies(JOB, given, alive=2, layers=models)
    least, most = held.min(axis=1).sum(), held.max(axis=1).sum()
    limit, grain = float(least + part * (most - least)), 1 << 22
    units = np.ceil(held / grain)
    tried = {
        each: sum(time[at, s] for at, s in enumerate(each)) + sum(reshard[a, b] for a, b in pairwise(each))
        for each in product(range(len(given)), repeat=4)
        if sum(units[at, s] for at, s in enumerate(each)) <= limit // grain
    }
    found = choose(time, held, reshard, limit, grain=grain)
    assert found.seconds == pytest.approx(min(tried.values()))
    assert tried[found.strategies] == pytest.approx(found.seconds)


def test_layers_that_differ_have_the_costs_of_their_own_model() -> None:
    small, large = shape(4, 2048, 32), shape(4, 6144, 32)
    time, held, _ = strategies(JOB, PLAIN, layers=[small, large, small])
    alone = [strategies(replace(JOB, model=each), PLAIN) for each in (small, large)]
    for at, which in enumerate((0, 1, 0)):
        assert time[at] == pytest.approx(alone[which][0][0]) and held[at] == pytest.approx(alone[which][1][0])


def test_ranks_that_share_sequences_hold_whole_weights_and_exchange_less_than_tensor_ranks_reduce() -> None:
    cut = Layout(tensor=8, data=1)
    time, held, reshard = strategies(JOB, [cut, Strategy(cut, shared=True)])
    assert held[0, 1] > held[0, 0]
    assert 0 < reshard[0, 1] == reshard[1, 0] and reshard[0, 0] == reshard[1, 1] == 0
    slow = replace(JOB, device=replace(JOB.device, scaleup_bw=20e9))
    apart = strategies(slow, [cut, Strategy(cut, shared=True)])[0][0]
    assert apart[0] - time[0, 0] > apart[1] - time[0, 1]  # DeepSpeed-Ulysses: 4/n of the bytes of an all-reduce
    one = Layout(data=8)
    alone = strategies(JOB, [one, Strategy(one, shared=True)])[0][0]
    assert alone[1] == pytest.approx(alone[0])


def test_overlap_lies_between_the_longer_and_both_one_after_the_other() -> None:
    draw = np.random.default_rng(2)
    compute, moved = draw.uniform(0, 3, 200), draw.uniform(0, 3, 200)
    for slower in (1.0, 1.18, 1.3, 2.0):
        found = overlapped(compute, moved, slower)
        assert (found >= np.maximum(compute, moved) - 1e-12).all() and (found <= compute + moved + 1e-12).all()
    assert overlapped(compute, moved, 1.0) == pytest.approx(np.maximum(compute, moved))
    assert overlapped(compute, 0 * moved, 1.3) == pytest.approx(compute)


def test_more_tensor_ranks_hold_less_of_embedding_and_head() -> None:
    layouts = [Layout(tensor=tensor, data=8 // tensor) for tensor in (1, 2, 4, 8)]
    sizes = [ends(JOB, each, first=True, last=True)[1] for each in layouts]
    assert sizes == sorted(sizes, reverse=True)
    both, first, last = (
        ends(replace(JOB, model=shape(4, 4096, 32, tied=False)), layouts[0], first=one, last=two)
        for one, two in ((True, True), (True, False), (False, True))
    )
    assert both[1] == pytest.approx(first[1] + last[1])
    assert ends(JOB, layouts[0], first=False, last=False)[1] == 0


def test_a_wide_vocabulary_gets_tensor_ranks_of_its_own_and_the_file_states_it() -> None:
    job = Job(shape(24, 2048, 16, vocab=256_000), replace(device("A100"), memory_bytes=28 << 30), 8, 2048, 32)
    found = layerwise(job, Space(schedule=("one_f_one_b",), zero=(0, 3), recompute=("none",), pipeline=(1,)))
    assert found.seconds <= found.uniform_s
    settings = json.loads(galvatron(job, found.base, found.each, found.shared, found.vocab)["galvatron.json"])
    assert settings["vtp"] == found.vocab and 8 % found.vocab == 0
    shared = found.shared or (False,) * 24
    assert settings["use_sp"] == ",".join("1" if one else "0" for one in shared)


@pytest.mark.slow
def test_the_programme_is_never_slower_than_a_single_way() -> None:
    job = Job(shape(24, 1024, 16), replace(device("V100"), scaleup_bw=10e9, memory_bytes=10 << 30), 8, 512, 8)
    found = compared(job)
    assert found.galvatron >= found.best() >= found.single() > 0
