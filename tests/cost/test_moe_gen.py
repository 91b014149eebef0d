"""Module batching: closed forms beside the longest path through tasks, knees, and plans inside memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.cost.lines import Line
from poise.cost.moe_gen import PARTS, SHARES, Layer, Offloaded, Plan

MIXTRAL = Offloaded(model("mixtral-8x7b"), device("A10"))


class Task(NamedTuple):
    """Seconds of a task, the resource that does it, and the tasks before it by their places."""

    seconds: float
    resource: str
    after: tuple[int, ...] = ()


def ends(tasks: Sequence[Task]) -> list[float]:
    """When each task ends: after those before it and after the last one of its resource; in the order given."""
    done: list[float] = []
    free: dict[str, float] = {}
    for task in tasks:
        begin = max([free.get(task.resource, 0.0), *(done[at] for at in task.after)])
        done.append(begin + task.seconds)
        free[task.resource] = done[-1]
    return done


def path(layer: Layer, kv: float, on_cpu: float, layers: int, *, alone: bool = False) -> list[Task]:
    """The tasks of some layers: weights, KV and attention in two places, then the experts; fetches run ahead."""
    tasks: list[Task] = []
    last: tuple[int, ...] = ()
    for _ in range(layers):
        weights = len(tasks)
        near, far = kv * (1 - on_cpu), kv * on_cpu
        tasks.append(Task(layer.weights, "link"))
        tasks.append(Task(0.0 if alone else layer.kv.at(near), "link"))
        tasks.append(Task(layer.dense.at(near), "device", (weights, weights + 1, *last)))
        tasks.append(Task(layer.cpu * far, "cpu", (weights, *last)))
        for at in range(PARTS):
            before = (weights + 2, weights + 3, weights + 4 + 2 * at)
            tasks += [Task(layer.fetch / PARTS, "link"), Task(layer.experts / PARTS, "device", before)]
        last = (len(tasks) - 1,)
    return tasks


seconds = st.floats(0, 10)
lines = st.builds(Line, seconds, st.floats(0, 1e-3))
layers = st.builds(Layer, seconds, lines, lines, st.floats(0, 1e-3), seconds, seconds, st.just(0.0))


@given(layers, st.integers(0, 100_000), st.floats(0, 1))
def test_a_layer_takes_the_longest_path(layer: Layer, kv: int, on_cpu: float) -> None:
    """Once all are under way a layer of the path takes the largest of the lines, from the second layer on."""
    predicted = max(line.at(kv) for line in layer.lines(on_cpu))
    for first in (2, 3, 7):
        shorter, longer = (ends(path(layer, kv, on_cpu, count))[-1] for count in (first, first + 1))
        assert longer - shorter == pytest.approx(predicted, abs=1e-9)
    whole = ends(path(layer, kv, 0.0, 1, alone=True))[-1]
    assert max(line.at(kv) for line in layer.alone()) == pytest.approx(whole, abs=1e-9)


@given(layers, st.integers(0, 100_000))
def test_no_part_on_the_cpu_is_shorter_than_the_shortest(layer: Layer, kv: int) -> None:
    least = max(line.at(kv) for line in layer.lines(None))
    found = min(max(line.at(kv) for line in layer.lines(at / 1000)) for at in range(1001))
    steepest = max(layer.kv.per_kv, layer.dense.per_kv, layer.cpu)
    assert least * (1 - 1e-9) <= found <= least + steepest * kv / 1000 + 1e-9


def test_ends_by_hand() -> None:
    """Two fetches of 2 s, each computed for 3 s after it: 2 + 3 + 3."""
    found = [Task(2, "link"), Task(3, "device", (0,)), Task(2, "link"), Task(3, "device", (2,))]
    assert ends(found) == [2, 5, 4, 8]


@pytest.mark.parametrize("requests", [1, 64, 4096])
@pytest.mark.parametrize("on_cpu", [0.0, 0.5, 1.0])
def test_a_step_is_no_shorter_than_what_crosses_the_link(requests: int, on_cpu: float) -> None:
    plan = Plan(requests, on_cpu)
    moved = MIXTRAL.touched(requests) * MIXTRAL.expert_bytes + MIXTRAL.dense_bytes
    moved += (1 - on_cpu) * requests * 500 * MIXTRAL.model.kv_values_per_layer * 2
    assert MIXTRAL.decode_s(plan, 500) >= 32 * moved / MIXTRAL.device.host_bw * (1 - 1e-9)


def test_experts_that_tokens_touch() -> None:
    assert MIXTRAL.touched(1) == pytest.approx(2)
    assert MIXTRAL.touched(1000) == pytest.approx(8)
    assert MIXTRAL.tokens_per_expert(1000) == 250


def test_throughput_rises_with_the_batch_up_to_the_knee() -> None:
    rates = [n / MIXTRAL.decode_s(Plan(n, 1.0), 1) for n in (16, 256, 4096, 65_536, 1 << 20)]
    assert rates == sorted(rates)
    knee = MIXTRAL.knee() * 4
    assert rates[1] < 0.2 * rates[-1] and knee > 1000


def test_the_best_plan_fits_the_host() -> None:
    plan = MIXTRAL.best(768)
    assert plan.requests <= MIXTRAL.host_batch(768) < 2 * MIXTRAL.host_batch(768)
    assert plan.on_cpu in SHARES
    few = MIXTRAL.model_batch(768)
    assert plan.requests / MIXTRAL.decode_s(plan, 768) > 3 * few / MIXTRAL.model_based_s(few, 768)


def test_narrower_weights_and_kv_are_fetched_sooner() -> None:
    narrow = Offloaded(MIXTRAL.model, MIXTRAL.device, weights=8, kv=8)
    assert narrow.expert_bytes == MIXTRAL.expert_bytes / 2 and narrow.kv_bytes == MIXTRAL.kv_bytes / 2
    assert narrow.decode_s(Plan(64), 500) < MIXTRAL.decode_s(Plan(64), 500)
    assert narrow.host_tokens() > 2 * MIXTRAL.host_tokens()


def test_what_cannot_be() -> None:
    with pytest.raises(ScenarioError, match="mixture"):
        Offloaded(model("llama-3.1-8b"), device("A10"))


def test_streamed_weights_come_whole_and_nothing_runs_meanwhile() -> None:
    """By hand: a step is no shorter than all layers' weights over the link; latents are kept unfolded, by head."""
    layers = MIXTRAL.model.weight_bytes(16) - 2 * 2 * MIXTRAL.model.vocab * MIXTRAL.model.hidden
    requests = MIXTRAL.model_batch(640)
    assert 0.5 * requests < MIXTRAL.streamed(640) * layers / MIXTRAL.device.host_bw < requests
    latent = Offloaded(model("deepseek-v2"), device("A10"))
    assert latent.bytes_by_head == 60 * 128 * (128 + 64 + 128) * 2 and MIXTRAL.bytes_by_head == 32 * 8 * 128 * 2 * 2
    assert latent.streamed(640) < latent.streamed(64)
