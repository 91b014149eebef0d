"""Steps by closed forms: many at once as one by one, and the directions in which they must move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, predict, shape
from poise.cost.training.columns import columns
from poise.cost.training.figures import Figures
from poise.cost.training.job import Attention, Fused
from poise.cost.training.layer import builder, late, layer
from poise.cost.training.network import Network
from poise.cost.training.parts import Slice, fused_softmax
from poise.cost.training.step import evaluate

GPT = shape(24, 4096, 32)
JOB = Job(GPT, device("H100"), 64, 2048, 256)
FUSED: tuple[Fused, ...] = ("all", "norms", "none")
KINDS: tuple[Attention, ...] = ("flash", "flash1")
LAYOUTS = [
    Layout(tensor=8, data=8),
    Layout(tensor=4, pipeline=4, data=4, micro_batch=2, recompute="full"),
    Layout(tensor=2, pipeline=4, chunks=3, data=8, schedule="interleaved"),
    Layout(data=64, zero=3, micro_batch=2),
    Layout(tensor=2, context=2, data=16, sequence_parallel=False),
    Layout(tensor=2, pipeline=8, data=4, schedule="zb_h1", split=(3, 4, 3, 3, 3, 3, 3, 2)),
]


def test_many_at_once_are_as_one_by_one() -> None:
    together = evaluate(JOB, columns(JOB, LAYOUTS))
    for row, layout in enumerate(LAYOUTS):
        alone = predict(JOB, layout)
        assert together.seconds[row] == pytest.approx(alone.seconds, rel=1e-12)
        assert together.memory[row] == pytest.approx(alone.memory, rel=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_make_up_the_step_and_classes_the_memory(layout: Layout) -> None:
    found = predict(JOB, layout)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert sum(found.classes.values()) == pytest.approx(found.memory)
    assert 0 < found.mfu <= found.hfu < 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_give_layouts_back(layout: Layout) -> None:
    assert columns(JOB, [layout]).layout(0, JOB) == layout


def test_more_bandwidth_and_less_work_never_take_longer() -> None:
    layout = LAYOUTS[2]
    slow = predict(replace(JOB, nic_bw=10e9), layout).seconds
    fast = predict(replace(JOB, nic_bw=50e9), layout).seconds
    again = predict(JOB, replace(layout, recompute="full")).seconds
    assert fast < slow
    assert predict(JOB, layout).seconds < again


@settings(max_examples=50)
@given(
    ranks=st.sampled_from([2, 4, 8, 16, 64, 512]), stride=st.sampled_from([1, 2, 4, 8, 16]), moved=st.floats(1e3, 1e10)
)
def test_an_all_reduce_is_a_scatter_and_a_gather(ranks: int, stride: int, moved: float) -> None:
    network = Network(JOB, Figures())
    both = network.reduce(moved, ranks, stride)
    assert float(both) == pytest.approx(2 * float(network.scatter(moved, ranks, stride)))
    assert float(network.scatter(2 * moved, ranks, stride)) >= float(network.scatter(moved, ranks, stride))
    local = int(network.local(ranks, stride))
    assert local * max(stride, 1) <= max(8, stride)
    assert float(network.reduce(moved, 1, stride)) == 0


def test_an_exchange_crosses_servers_once_for_each_that_has_an_expert() -> None:
    network = Network(JOB, Figures())
    few, many = (float(network.exchange(1e9, 32, 1, copies)) for copies in (1, 8))
    assert many < few
    assert float(network.exchange(1e9, 1, 1, 8)) == 0


def test_offloading_states_trades_memory_for_time() -> None:
    base = Layout(data=64, zero=1)
    kept, moved = predict(JOB, base), predict(JOB, replace(base, offload_optimizer=True))
    assert moved.memory < kept.memory
    assert moved.seconds > kept.seconds
    assert np.isfinite(moved.seconds)


def test_activations_in_host_memory_cost_what_their_copies_cannot_hide() -> None:
    base = Layout(tensor=2, data=32)
    kept, half = predict(JOB, base), predict(JOB, replace(base, offload_activations=0.5))
    assert half.memory < kept.memory
    assert half.seconds >= kept.seconds
    slow = replace(JOB, device=replace(JOB.device, host_bw=1e9))
    assert predict(slow, replace(base, offload_activations=0.5)).seconds > 2 * kept.seconds


def test_sharded_gradients_are_summed_behind_every_microbatch() -> None:
    def summed(zero: int, microbatches: int) -> float:
        micro = JOB.batch * 8 // JOB.devices // microbatches
        layout = Layout(tensor=8, data=JOB.devices // 8, zero=zero, micro_batch=micro, overlap=False)
        return predict(JOB, layout).parts["gradients"]

    assert summed(2, 1) == pytest.approx(summed(1, 1)) == pytest.approx(summed(1, 32))
    once = summed(2, 2) - summed(2, 1)
    assert once > 0
    assert [summed(2, count) - summed(2, 1) for count in (4, 32)] == pytest.approx([3 * once, 31 * once])


def test_a_ring_takes_longer_the_more_ranks_it_passes() -> None:
    network = Network(JOB, Figures())
    small = [float(network.reduce(1e3, ranks, 1)) for ranks in (2, 4, 8)]
    assert small[1] - small[0] == pytest.approx(2 * 2 * 1.9e-6, rel=1e-2)
    assert small[2] - small[1] == pytest.approx(2 * 4 * 1.9e-6, rel=1e-2)


def test_whole_gradients_in_32_bits_take_four_times_what_scattered_ones_in_16_do() -> None:
    """Each weight crosses twice in an all-reduce, and once when scattered; the gather of weights stays."""
    layout = Layout(data=64, gradient_bytes=2, overlap=False)
    scattered = predict(JOB, layout).parts["gradients"]
    whole = predict(replace(JOB, summed_bytes=4), layout).parts["gradients"]
    gathered = scattered / 2  # as many bytes as are scattered
    assert whole - gathered == pytest.approx(4 * (scattered - gathered), rel=1e-2)


def test_gates_of_their_own_sum_a_third_input_gradient() -> None:
    gated = replace(JOB, model=replace(GPT, gated=True))
    for sequence_parallel, more in ((False, 1.25), (True, 1.0)):  # two sums forward, two or three backward
        layout = Layout(tensor=8, data=8, sequence_parallel=sequence_parallel)
        plain, apart = (predict(replace(gated, gates_apart=apart), layout) for apart in (False, True))
        exposed = [each.parts["exposed_in_layers"] for each in (plain, apart)]
        assert exposed[1] == pytest.approx(more * exposed[0])


def test_older_kernels_take_longer() -> None:
    """FlashAttention 1 half the rate of 2 (Dao 2023); norms, rotary positions and gates of single operations."""
    long = replace(JOB, sequence=16384, device=device("A100"), model=replace(GPT, gated=True))
    layout = LAYOUTS[0]
    core = {
        name: predict(replace(long, attention=name), replace(layout, recompute="operations", operations=("attention",)))
        for name in KINDS
    }
    plain = {name: predict(replace(long, attention=name), layout) for name in KINDS}
    again = {name: core[name].seconds - plain[name].seconds for name in core}
    assert again["flash1"] == pytest.approx(2 * again["flash"])
    times = [predict(replace(long, fused=how), layout).seconds for how in FUSED]
    assert times[0] < times[1] < times[2]


@given(skew=st.floats(1.0, 4.0))
def test_the_fuller_the_fullest_rank_of_experts_the_longer_the_step(skew: float) -> None:
    """Also where its load is not a multiple of 8: loads are padded."""
    mixed = Job(shape(4, 1024, 8, experts=64, active=8, expert_ffn=768), device("H100"), 8, 4096, 64)
    layout = Layout(data=8, expert=8)
    even, uneven, more = (predict(replace(mixed, skew=each), layout).seconds for each in (1.0, skew, skew + 0.1))
    assert even <= uneven <= more <= 1.2 * uneven


def test_an_overlapped_exchange_hides_behind_a_forward_and_a_backward() -> None:
    mixed = Job(shape(8, 2048, 16, experts=64, active=8, expert_ffn=768), device("H100"), 64, 4096, 256)
    layout = Layout(data=64, expert=64)
    alone, paired = predict(mixed, layout), predict(replace(mixed, paired=True), layout)
    hidden = alone.parts["exposed_in_layers"] - paired.parts["exposed_in_layers"]
    assert 0 < hidden <= alone.parts["exposed_in_layers"]
    assert paired.seconds < alone.seconds


def test_tensor_ranks_of_a_server_reduce_as_nccl_was_measured() -> None:
    """Other vendors' devices, and groups beyond a server, take the ring's form."""
    near = Network(JOB, Figures())
    for ranks in (2, 4, 8):
        found = [near.reduce_near(moved, ranks) for moved in (1e5, 1e6, 1e7, 1e8, 1e9)]
        assert found == sorted(found)
        assert found[-1] == pytest.approx(float(near.reduce(1e9, ranks, 1)), rel=0.25)
    rings = Network(replace(JOB, device=device("A100")), Figures())  # no switch sums there
    assert rings.reduce_near(1e8, 8) > rings.reduce_near(1e8, 4) > rings.reduce_near(1e8, 2) > 0
    assert near.reduce_near(1e8, 1) == 0
    assert near.reduce_near(1e8, 16) == float(near.reduce(1e8, 16, 1))
    other = Network(replace(JOB, device=device("MI300X")), Figures())
    assert other.reduce_near(1e8, 8) == float(other.reduce(1e8, 8, 1))


def test_the_last_of_several_ranks_launches_at_the_maximum_of_exponential_delays() -> None:
    drawn = np.random.default_rng(0).exponential(size=(200_000, 8))
    for ranks in (1, 2, 4, 8):
        assert drawn[:, :ranks].max(axis=1).mean() - 1 == pytest.approx(late(ranks), abs=0.01)


def test_a_fused_softmax_needs_a_multiple_of_four_matrices_of_scores() -> None:
    """Sixteen heads over eight ranks are two of a sequence, which take single operations as eager attention does."""
    model = shape(4, 1024, 16)
    fused = Job(model, device("A100"), 8, 1024, 16, attention="fused")
    cuts = {
        (tensor, size): Slice(tensor, False, 1, 1, 1, size) for tensor in (1, 2, 4, 8) for size in (1, 2, 4)
    }  # fmt: skip
    single = [key for key, cut in cuts.items() if not fused_softmax(fused, cut)]
    assert single == [(8, 1)]
    assert all(fused_softmax(replace(fused, attention="flash"), cut) for cut in cuts.values())
    assert not any(fused_softmax(replace(fused, attention="eager"), cut) for cut in cuts.values())
    kernels, network = builder(fused, Figures())
    alone, beside = (layer(fused, kernels, network, cuts[8, size]) for size in (1, 2))
    eager = layer(replace(fused, attention="eager"), *builder(fused, Figures()), cuts[8, 1])
    assert alone.forward > beside.forward  # launches of single operations, though half the work
    assert alone.forward == pytest.approx(eager.forward, rel=0.05)
