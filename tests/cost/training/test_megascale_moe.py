"""MegaScale-MoE: bytes of both dispatches and of attention, and what each part of it adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.model import Moe
from poise.cost.training import Job
from poise.cost.training import megascale_moe as moe
from poise.cost.training.figures import figures

EQUAL = replace(figures(), exchange=1.0)
"""Links that all-to-alls use as well as rings do."""


def a_job(active: int = 3, devices: int = 240, node: int = 8, sequence: int = 8192, *, once: bool = True) -> Job:
    shape = replace(model("mixtral-8x7b"), layers=60, moe=Moe(32, active, 14336, 60))
    return Job(shape, replace(device("H800"), scaleout_bw=50e9), devices, sequence, 720, node=node, once=once)


def by_bytes(seconds: Callable[[Job], float], job: Job) -> float:
    """What a second sequence adds: seconds without the latency of exchanges."""
    return seconds(replace(job, sequence=2 * job.sequence)) - seconds(job)


@pytest.mark.parametrize("node", [2, 4, 8, 16])
def test_on_equal_links_the_all_to_all_is_shorter_while_a_token_has_fewer_experts_than_devices(node: int) -> None:
    long = a_job(node=node, sequence=10**7)  # latency is nothing beside it
    assert moe.crossover(long, EQUAL) in (node - 1, node)  # at as many experts as devices both move the same


@given(st.integers(1, 32), st.floats(0.3, 1.0))
def test_bytes_of_dispatch_are_k_over_n_of_those_of_gathering(active: int, reached: float) -> None:
    use = replace(EQUAL, exchange=reached)
    exchange = by_bytes(lambda job: moe.dispatch_s(job, use)[0], a_job(active))
    gather = by_bytes(lambda job: moe.dispatch_s(job, use)[1], a_job(active))
    assert exchange / gather == pytest.approx(active / 8 / reached, rel=1e-6)


def test_attention_by_sequence_moves_its_part() -> None:
    tensor = by_bytes(lambda job: moe._attention_s(job, moe.Way(), moe.Network(job, EQUAL)), a_job())
    way = moe.Way("sequence")
    sequence = by_bytes(lambda job: moe._attention_s(job, way, moe.Network(job, EQUAL)), a_job())
    assert sequence / tensor == pytest.approx(moe.attention_part(8, 4))


@given(st.sampled_from([1, 2, 3, 6, 12]), st.sampled_from([240, 480, 1440]))
def test_every_part_of_it_shortens_the_step(active: int, devices: int) -> None:
    job = a_job(active, devices, once=False)
    ways = [
        moe.Way(), moe.Way("sequence"), moe.Way("sequence", "least"), moe.Way("sequence", "least", overlapped=True),
        moe.Way("sequence", "least", overlapped=True, gradient_bytes=2),
    ]  # fmt: skip
    seconds = [moe.step(job, 15, each).seconds for each in ways]
    assert seconds == sorted(seconds, reverse=True)
    assert moe.step(job, 15, moe.Way()).rate == pytest.approx(job.tokens / seconds[0])


def test_what_does_not_divide_is_refused_in_one_line() -> None:
    with pytest.raises(ScenarioError, match="layers 60 is not a multiple of 7"):
        moe.step(a_job(), 7, moe.Way())
    with pytest.raises(ScenarioError, match="has no experts"):
        moe.dispatch_s(replace(a_job(), model=model("llama-3.1-8b")))
