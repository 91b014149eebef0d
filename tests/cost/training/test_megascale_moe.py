"""MegaScale-MoE: bytes of both dispatches and of attention, and what each part of it adds."""

from __future__ import annotations

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


def a_job(active: int = 3, devices: int = 240, node: int = 8, *, once: bool = True) -> Job:
    shape = replace(model("mixtral-8x7b"), layers=60, moe=Moe(32, active, 14336, 60))
    return Job(shape, replace(device("H800"), scaleout_bw=50e9), devices, 8192, 720, node=node, once=once)


@pytest.mark.parametrize("node", [2, 4, 8, 16])
def test_on_equal_links_the_all_to_all_is_shorter_while_a_token_has_fewer_experts_than_devices(node: int) -> None:
    assert moe.crossover(a_job(node=node), EQUAL) == node


@given(st.integers(1, 32), st.floats(0.3, 1.0))
def test_bytes_of_dispatch_are_k_over_n_of_those_of_gathering(active: int, reached: float) -> None:
    use = replace(EQUAL, exchange=reached)
    fixed = 2 * moe.NEAR_S
    exchange, gather = moe.dispatch_s(a_job(active), use)
    bandwidth = (gather - fixed * use.near) / (exchange - fixed)
    assert bandwidth == pytest.approx(8 * reached / active, rel=1e-6)


def test_attention_by_sequence_moves_its_part() -> None:
    job = a_job(node=8)
    network = moe.Network(job, EQUAL)
    tensor, sequence = (moe._attention_s(job, moe.Way(attention=way), network) for way in ("tensor", "sequence"))
    fixed = moe.NEAR_S
    assert (sequence - fixed) / (tensor - 2 * fixed * EQUAL.near) == pytest.approx(moe.attention_part(8, 4))


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
    with pytest.raises(ScenarioError, match="layers 60 is no multiple of 7"):
        moe.step(a_job(), 7, moe.Way())
    with pytest.raises(ScenarioError, match="has no experts"):
        moe.dispatch_s(replace(a_job(), model=model("llama-3.1-8b")))
