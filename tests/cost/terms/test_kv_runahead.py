"""The chain of devices: published closed forms, cuts that balance, limits of one device and of free links."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.kv_runahead import Chain, KvRunahead, least, sent

POOL = Pool(model("llama-7b"), device("A100"), tensor=4)


@pytest.mark.parametrize(("devices", "ideal"), [(2, 2.67), (4, 6.4), (8, 14.2)])
def test_the_published_bound(devices: int, ideal: float) -> None:
    """arXiv 2405.05329: against the whole square, that causality halves."""
    assert 1000**2 / least(1000, devices) == pytest.approx(ideal, rel=0.005)
    assert sent(1000, devices)[1] == 2 * sent(1000, devices)[0]


@settings(deadline=None)
@given(st.integers(16, 20_000), st.sampled_from((2, 4, 8)), st.integers(0, 2000))
def test_cuts_are_of_the_whole_prompt_and_fall(tokens: int, devices: int, context: int) -> None:
    chain = Chain(replace(POOL, tensor=devices))
    even, uneven = chain.even(tokens), chain.uneven(tokens, context)
    assert sum(even) == sum(uneven) == tokens and len(uneven) == devices
    busiest = [max(_layers(chain, cuts, context)) for cuts in (even, uneven)]
    assert busiest[1] <= busiest[0] * (1 + 1e-6)


def _layers(chain: Chain, cuts: tuple[int, ...], context: int) -> list[float]:
    return [chain.layer_s(each, context + sum(cuts[:at])) for at, each in enumerate(cuts)]


def test_no_chain_beats_its_devices() -> None:
    """All devices together have the work of one that does everything; each must pass all layers of its cut."""
    chain = Chain(POOL)
    for tokens in (2048, 8192, 16_384):
        alone = chain.layer_s(tokens, 0) * POOL.model.layers
        found = chain.best_s(tokens)
        assert alone / POOL.tensor <= found <= 1.1 * alone


def test_uneven_beats_even_on_long_prompts_only() -> None:
    chain = Chain(POOL)
    times = {n: (chain.prefill_s(chain.even(n)), chain.prefill_s(chain.uneven(n))) for n in (8192, 16_384, 32_768)}
    assert all(uneven < even for even, uneven in times.values())


def test_slow_links_cost_the_chain_less_than_all_reduces() -> None:
    slow = replace(POOL, device=replace(POOL.device, scaleup_bw=10e9))
    lost = []
    for pool in (POOL, slow):
        tensor = Roofline().build(pool).step(StepShape(0, (Chunk(8192, 0),))).base / 1e12
        lost.append((tensor, Chain(pool).best_s(8192)))
    (tensor, chain), (tensor_slow, chain_slow) = lost
    assert tensor_slow / tensor > chain_slow / chain > 1


def test_as_a_term_it_takes_the_shorter_way() -> None:
    inner = Roofline().build(POOL)
    term = KvRunahead().around(inner, POOL)
    for tokens in (512, 2048, 12_288):
        shape = StepShape(4, (Chunk(tokens, 0),))
        assert term.step(shape).base <= inner.step(shape).base and term.step(shape)[1:] == inner.step(shape)[1:]
    assert term.step(StepShape(9)) == inner.step(StepShape(9))
    assert term.step(StepShape(0, (Chunk(12_288, 0),))).base < inner.step(StepShape(0, (Chunk(12_288, 0),))).base


def test_a_chain_wants_a_tensor_group() -> None:
    with pytest.raises(ScenarioError, match="tensor"):
        Chain(replace(POOL, tensor=1))
