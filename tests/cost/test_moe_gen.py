"""Module batching: the longest path, its bounds by resource, knees, and plans inside memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import UserError
from poise.cost.moe_gen import Offloaded, Plan, Task, ends

MIXTRAL = Offloaded(model("mixtral-8x7b"), device("A10"))

tasks = st.lists(
    st.tuples(st.floats(0, 10), st.sampled_from(("link", "device", "cpu")), st.lists(st.integers(0, 30), max_size=3)),
    min_size=1, max_size=30,
)  # fmt: skip


@given(tasks)
def test_no_path_is_shorter_than_a_resource_or_longer_than_all(drawn: list[tuple[float, str, list[int]]]) -> None:
    given_ = [Task(s, kind, tuple(at for at in after if at < place)) for place, (s, kind, after) in enumerate(drawn)]
    found = max(ends(given_))
    for kind in ("link", "device", "cpu"):
        assert found >= sum(task.seconds for task in given_ if task.resource == kind) - 1e-9
    assert found <= sum(task.seconds for task in given_) + 1e-9
    for task, end in zip(given_, ends(given_), strict=True):
        assert all(end >= ends(given_)[at] + task.seconds - 1e-9 for at in task.after)


def test_ends_by_hand() -> None:
    """Two fetches of 2 s, each computed for 3 s after it: 2 + 3 + 3."""
    path = [Task(2, "link"), Task(3, "device", (0,)), Task(2, "link"), Task(3, "device", (2,))]
    assert ends(path) == [2, 5, 4, 8]


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
    few = MIXTRAL.model_batch(768)
    assert plan.requests / MIXTRAL.decode_s(plan, 768) > 3 * few / MIXTRAL.model_based_s(few, 768)


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="mixture"):
        Offloaded(model("llama-3.1-8b"), device("A10"))
