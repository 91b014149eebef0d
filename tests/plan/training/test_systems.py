"""Layout systems of papers on small cases: against trying all, closed forms and the relations they claim."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from poise.catalogue.devices import device
from poise.core.chance import Chance
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.frontier import Link, communication_s, memory, three_level, zero_3, zero_pp
from poise.plan.training.galvatron import choose
from poise.plan.training.holmes import Site, dealt, environment, spread
from poise.plan.training.layer_strategies import strategies
from poise.plan.training.pipette import Work, hidden_path_s, naive_s, place, step_s
from poise.plan.training.rules import fastest, ruled
from poise.plan.training.search import search

GPT = shape(24, 4096, 32)


def _links(count: int, seed: int) -> list[list[float]]:
    chance = Chance(seed)
    found = [[1.0] * count for _ in range(count)]
    for a in range(count):
        for b in range(a):
            chance.key = a * count + b
            found[a][b] = found[b][a] = 2e9 + 20e9 * chance.draw("link")
    return found


@pytest.mark.parametrize("seed", range(4))
def test_annealing_finds_the_best_order_of_few_servers(seed: int) -> None:
    work, links = Work(3, 2, 9, 0.05, 2e8, 4e9), _links(6, seed)
    best = min(step_s(work, links, order) for order in permutations(range(6)))
    found = place(work, links, Chance(seed))
    assert found.seconds == pytest.approx(best)
    assert step_s(work, links, found.order) == found.seconds <= found.naive_s


def test_the_hidden_path_repeats_every_group_of_microbatches() -> None:
    work = Work(4, 2, 12, 1.0, 0, 0)
    assert hidden_path_s(work, 0.5, 2.0) == 3 * (4 + 0.5) + 3 + 2
    assert naive_s(work, 0.5, 2.0) == 15 + 0.5 + 2
    assert hidden_path_s(Work(4, 2, 3, 1.0, 0, 0), 0.5, 2.0) == 0.5 + 6 + 2


def test_links_of_another_size_are_refused() -> None:
    with pytest.raises(ScenarioError, match="4 × 4"):
        place(Work(2, 2, 4, 1, 1, 1), _links(3, 0), Chance(0))


@pytest.mark.parametrize("limit", [9.0, 12.0, 16.0, 40.0])
def test_a_strategy_a_layer_is_what_trying_all_finds(limit: float) -> None:
    rng = np.random.default_rng(3)
    time, held = rng.uniform(1, 5, (4, 4)), rng.integers(2, 10, (4, 4)).astype(float)
    reshard = rng.uniform(0, 1, (4, 4)) * (1 - np.eye(4))
    tried = {
        each: sum(time[at, s] for at, s in enumerate(each)) + sum(reshard[a, b] for a, b in pairwise(each))
        for each in product(range(4), repeat=4)
        if sum(held[at, s] for at, s in enumerate(each)) <= limit
    }
    if not tried:
        with pytest.raises(ScenarioError, match="allow more sharding"):
            choose(time, held, reshard, limit, grain=1.0)
        return
    found = choose(time, held, reshard, limit, grain=1.0)
    assert found.seconds == pytest.approx(min(tried.values()))
    assert found.memory <= limit


def test_less_memory_shards_or_recomputes_more_layers() -> None:
    job = Job(GPT, device("A100"), 8, 2048, 64)
    layouts = [Layout(data=8, zero=1), Layout(data=8, zero=3), Layout(data=8, zero=3, recompute="full")]
    time, held, reshard = strategies(job, layouts)
    seconds = [choose(time, held, reshard, size * 2**30).seconds for size in (80, 40, 24)]
    assert seconds == sorted(seconds)
    assert seconds[0] < seconds[-1]


def test_faster_sites_get_more_layers() -> None:
    assert dealt(24, [1, 1]) == (12, 12)
    assert dealt(30, [2, 1]) == (21, 9)
    assert sum(dealt(31, [3, 1, 2])) == 31
    with pytest.raises(ScenarioError, match="2 layers cannot be dealt to 3 sites"):
        dealt(2, [1, 1, 1])


def test_stages_across_sites_beat_data_groups_across_them() -> None:
    """Holmes: two clusters of fast NICs joined by Ethernet."""
    job = Job(GPT, device("A100"), 32, 2048, 512)
    sites = [Site(device("A100"), 32, 25e9), Site(device("A100"), 32, 25e9)]
    slow = spread(job, sites, Layout(tensor=4, data=8), 0.3e9)
    assert slow.pipelined_s < slow.flat_s
    assert slow.layers == (12, 12)
    alone = predict(job, Layout(tensor=4, data=8)).seconds
    assert alone / 2 < slow.pipelined_s < alone


def test_equal_sites_joined_as_well_as_they_are_inside_are_one_cluster() -> None:
    job = Job(GPT, device("A100"), 32, 2048, 512)
    sites = [Site(device("A100"), 32, 25e9)] * 2
    found = spread(job, sites, Layout(tensor=4, data=8), 25e9)
    one = predict(replace(job, devices=64, nic_bw=25e9), Layout(tensor=4, pipeline=2, data=8))
    assert found.pipelined_s == pytest.approx(one.seconds, rel=0.03)


def test_a_larger_site_has_more_of_the_pipeline_and_of_the_layers() -> None:
    job = Job(GPT, device("A100"), 64, 2048, 512)
    sites = [Site(device("A100"), 64, 25e9), Site(device("A100"), 32, 12.5e9)]
    found = spread(job, sites, Layout(tensor=4, pipeline=2, data=8), 3e9)
    assert found.layers[0] > 1.5 * found.layers[1] and sum(found.layers) == 24
    two = spread(job, sites[:1] * 2, Layout(tensor=4, pipeline=2, data=8), 3e9)
    assert two.pipelined_s < found.pipelined_s
    with pytest.raises(ScenarioError, match="holds no whole number of pipeline ranks"):
        spread(job, [sites[0], Site(device("A100"), 40, 25e9)], Layout(tensor=4, pipeline=2, data=8), 3e9)


def test_a_cluster_of_one_network_is_a_prediction() -> None:
    job, layout = Job(GPT, device("A100"), 32, 2048, 512), Layout(pipeline=2, data=16, recompute="full")
    fast, slow, both = (environment(job, layout, nics, 0.4e9) for nics in ((25e9,), (0.4e9,), (25e9, 12e9)))
    assert fast.tflops == pytest.approx(
        predict(replace(job, nic_bw=25e9), layout).mfu * device("A100").bf16_flops / 1e12
    )
    assert slow.tflops < both.tflops < fast.tflops and both.flat_tflops < both.tflops


def test_rules_choose_what_fits_and_a_search_is_never_slower() -> None:
    job = Job(shape(40, 5120, 40, ffn=13824, gated=True), device("A100"), 32, 2048, 512)
    chosen = ruled(job)
    assert chosen.fits(job)
    assert (chosen.layout.micro_batch, chosen.layout.recompute) == (1, "none")
    assert search(job).best[0].seconds <= chosen.seconds * 1.001
    assert fastest(job).seconds <= chosen.seconds
    whole = Layout(sequence_parallel=False, overlap=False, gradient_bytes=2)
    for each in (ruled(job, like=whole), fastest(job, like=whole)):
        assert (each.layout.sequence_parallel, each.layout.overlap, each.layout.gradient_bytes) == (False, False, 2)


def test_three_levels_move_less_over_slow_links() -> None:
    """20 billion weights on 384 dies: pairs at 200 GB/s, servers of eight at 50, 25 beyond."""
    links, weights = [Link(2, 200e9), Link(8, 50e9), Link(384, 25e9)], 20e9
    plain, plus, three = (
        communication_s(each, weights, links, 4) for each in (zero_3(384), zero_pp(384, 8), three_level(384, 8))
    )
    assert three < plus < plain
    assert memory(zero_3(384), weights) < memory(three_level(384, 8), weights)
    assert memory(three_level(384, 8), weights) == pytest.approx(weights * (1 + 2 / 8 + 12 / 384))
    with pytest.raises(ScenarioError, match="no link joins 512 ranks"):
        communication_s(zero_3(512), weights, links, 1)
