"""Tutel's choices: closed forms of exchanges and gathers, and that a pipeline is as long as its slower part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import ScenarioError
from poise.cost.tutel import Choice, Layer, Site, choices, moe_layer

A100 = device("A100")


def site(tokens: int = 4096, ranks: int = 32, experts: int = 8) -> Site:
    return Site(A100, tokens, 2.0 * tokens, 2048, 2048, ranks, experts, 8, 25e9)


def test_exchanges_are_their_messages_and_bytes() -> None:
    where = site()
    use = where.use
    peers = 7 * use.collective_s + 24 * use.far_s
    assert where.exchange_s(0.0, 0) == pytest.approx(peers)
    assert where.exchange_s(0.0, 1) == pytest.approx(7 * use.collective_s + 3 * use.far_s)
    assert where.exchange_s(1e9, 0) - peers == pytest.approx(0.75e9 / (25e9 * use.link))


def test_what_is_gathered_is_what_a_rank_lacks() -> None:
    where = site()  # four ranks share an expert
    near = A100.scaleup_bw * where.use.link
    assert where.gather_s(4) == 0.0
    assert where.gather_s(2) == pytest.approx(where.use.collective_s + where.expert_bytes / 4 / near)
    assert where.gather_s(1) == pytest.approx(3 * where.use.collective_s + where.expert_bytes * 3 / 4 / near)
    assert site(experts=64).gather_s(1) == 0.0 and site(experts=64).gather_s(0) > 0


@given(st.integers(1, 2**18), st.sampled_from([(16, 4), (32, 8), (32, 64), (8, 8)]))
@settings(max_examples=25)
def test_a_pipeline_is_at_least_its_slower_part_and_at_most_one_after_another(
    tokens: int, shape: tuple[int, int]
) -> None:
    where = site(tokens, *shape)
    for each in choices(where):
        if each.r == 0:
            continue
        chunk = where.exchange_s(where.pairs * 2048 * 2 * each.r / each.degree, each.nested)
        travel = 2 * 2 * each.degree * chunk
        work = [each.degree * where.compute_s(each.r, each.degree, n) for n in (1, 2)]
        weights = 3 * where.gather_s(each.r)
        found = where.seconds(each)
        assert max(travel, sum(work)) + weights <= found * (1 + 1e-9)
        assert found <= (travel + sum(work) + weights) * (1 + 1e-9)
        if each.degree == 1:
            assert found == pytest.approx(travel + sum(work) + weights)


def test_the_best_is_the_best_of_all_and_each_r_is_tried() -> None:
    layer, where = moe_layer(A100, 4096, 32, 8, nic_bw=25e9), site()
    assert {each.r for each in choices(where)} == {0, 1, 2, 4}
    sparse = where.buffers_s(dense=False)
    assert layer.best_s == pytest.approx(min(where.seconds(each) for each in choices(where)) + sparse)
    assert layer.best_s == min(layer.r0_s, layer.r1_s, layer.r2_s, layer.r4_s)
    assert layer.alone_s == pytest.approx(where.seconds(Choice(1, 1, 0)) + sparse)
    assert isinstance(moe_layer(A100, 64, 16, 32), Layer)


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ScenarioError, match="multiples or parts"):
        moe_layer(A100, 64, 16, 3)
