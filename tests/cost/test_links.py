"""Collectives by measured curves: the link that joins ranks, that curves meet measurements, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.spec import Device, Engine, Pool
from poise.cost.curves import Curves
from poise.cost.efficiency import Efficiencies
from poise.cost.exchange import FEW, LOW_LATENCY, NORMAL
from poise.cost.gather import Gather
from poise.cost.links import Links, Path
from poise.cost.measured import Measured
from poise.cost.tables import load_tables

TABLES = load_tables()
RTX = device("RTX-PRO-6000-Blackwell-Server")
QWEN = model("qwen3-30b-a3b")


def links(machine: Device, engine: str = "vllm") -> Links:
    return Links(machine, TABLES, engine, {})


def gathered(pool: Pool) -> Gather:
    return Gather(pool, Efficiencies(), TABLES, pool.device, 1.0)


@pytest.mark.parametrize(
    ("name", "pcie", "ranks", "expected"),
    [
        ("H100", "", 8, Path("", "")),
        ("H100", "", 16, None),
        ("L40S", "", 8, Path("pcie_", "direct")),
        ("L40S", "sockets", 4, Path("pcie_", "sockets")),
        ("L40S", "", 16, None),
        ("RTX-PRO-6000", "", 4, Path("pcie_", "direct")),
        ("RTX-4090", "", 2, Path("staged_", "host")),
        ("RTX-4090", "", 4, None),
        ("RTX-4090", "direct", 4, Path("pcie_", "direct")),
        ("A40", "", 2, Path("", "")),
        ("A40", "", 4, None),
    ],
)
def test_the_link_that_joins_ranks(name: str, pcie: str, ranks: int, expected: Path | None) -> None:
    machine = device(name)
    assert links(replace(machine, pcie=pcie or machine.pcie)).path(ranks) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("machine", "engine", "ranks", "size", "measured_us"),
    [
        (RTX, "vllm", 8, 4 << 20, 346.9),
        (RTX, "vllm", 2, 64 << 10, 6.2),
        (replace(RTX, pcie="host"), "vllm", 2, 1 << 20, 91.5),
        (device("L40S"), "sglang", 8, 16 << 20, 1488.0),
        (replace(device("L40S"), pcie="sockets"), "trtllm", 4, 16 << 20, 5029.2),
    ],
)
def test_all_reduces_over_pcie_meet_what_was_measured(
    machine: Device, engine: str, ranks: int, size: int, measured_us: float
) -> None:
    found = min(each.seconds(size) for each in links(machine, engine).all_reduces(ranks))
    assert found == pytest.approx(measured_us * 1e-6, rel=0.12)


@given(st.floats(256, 1e9), st.sampled_from((2, 4, 8)))
@settings(deadline=None)
def test_sockets_are_no_faster_than_a_switch_and_more_bytes_take_longer(size: float, ranks: int) -> None:
    direct, across = (links(replace(device("L40S"), pcie=way)) for way in ("direct", "sockets"))
    for kind in ("gather", "scatter"):
        near, far = getattr(direct, kind)(ranks), getattr(across, kind)(ranks)
        assert near(2 * size) >= near(size) > 0
        assert far(2 * size) >= far(size)
        if ranks > 2 and size > 1 << 20:
            assert far(size) > near(size)


@given(st.floats(256, 1e9))
@settings(deadline=None)
def test_a_staged_all_reduce_is_a_scatter_and_a_gather(size: float) -> None:
    staged = links(replace(RTX, pcie="host"))
    gather, scatter, (whole,) = staged.gather(2), staged.scatter(2), staged.all_reduces(2)
    assert gather is not None
    assert scatter is not None
    assert gather(size) + scatter(size) == pytest.approx(whole.seconds(size))


@pytest.mark.parametrize("tokens", [16, 512, 8192])
@pytest.mark.parametrize(("weights", "sent"), [("fp4", 0.5625), ("bf16", 2.0)])
def test_without_a_link_of_their_own_experts_gather_tokens_and_scatter_sums(
    tokens: int, weights: str, sent: float
) -> None:
    pool = Pool(QWEN, RTX, data=4, expert=4, weights=weights, engine=Engine("tensorrt-llm"))  # type: ignore[arg-type]
    gather, scatter = links(RTX).gather(4), links(RTX).scatter(4)
    assert gather is not None
    assert scatter is not None
    values = 4 * tokens * QWEN.hidden
    assert gathered(pool).exchange.seconds(tokens) == pytest.approx(gather(values * sent) + scatter(values * 2))


def test_tensorrt_llm_sends_tokens_only_where_they_reach_fewer_ranks_than_there_are() -> None:
    pool = Pool(model("deepseek-r1"), device("GB200"), data=8, expert=8, weights="fp8", engine=Engine("tensorrt-llm"))
    assert not gathered(pool).exchange.dispatches
    assert gathered(replace(pool, data=32, expert=32)).exchange.dispatches
    assert not gathered(replace(pool, data=32, expert=32, device=device("H100"))).exchange.dispatches


def test_deepep_changes_its_mode_beyond_the_tokens_that_the_first_has_room_for() -> None:
    pool = Pool(model("deepseek-r1"), device("GB200"), data=32, expert=32, weights="fp8", engine=Engine("sglang"))
    exchange = gathered(pool).exchange.seconds
    part, token = gathered(pool).roofline.moe, 7168 * 2
    low, normal = (gathered(pool).exchange._ways(*mode) for mode in (("", LOW_LATENCY), ("_normal", NORMAL)))
    reached = 32 * (1 - (31 / 32) ** 8)  # ranks that hold any of a token's eight experts: each is sent it once
    assert exchange(FEW) == pytest.approx(part * low(FEW * token * 8))
    assert exchange(FEW + 1) == pytest.approx(part * normal((FEW + 1) * token * reached))


def test_without_a_curve_the_closed_forms_answer() -> None:
    pool = Pool(model("llama-3.1-8b"), device("RTX-4090"), tensor=4)
    gather = gathered(pool)
    assert gather._reducers == []
    assert gather._reduced(64) == min(line.at(64) for line in gather.roofline.all_reduces())


def test_stages_over_pcie_send_by_a_measured_curve() -> None:
    pool = Pool(QWEN, RTX, pipeline=2)
    hop = links(RTX).hop(2)
    assert hop is not None
    assert gathered(pool)._hop(512) == pytest.approx(2 / QWEN.layers * hop(512 * QWEN.hidden * 2))
    costs = Measured().build(pool)._lane(1.0)
    assert isinstance(costs, Curves)
    assert "pcie_all_gather nccl" in costs.curves
