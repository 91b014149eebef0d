"""Power caps in a plan: what may be asked, what they do to power and energy, and where they let a fleet fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.core.errors import UserError
from poise.core.power import POWER
from poise.core.spec import Engine
from poise.plan.cap import LADDER, ladder, read_caps
from poise.plan.deploy import Setting, vllm
from poise.plan.deploy.cap import cap_command
from poise.plan.deploy.kubernetes import kubernetes
from poise.plan.fleet import Fleet, unit_name
from poise.plan.limits import Limits
from poise.plan.search import search
from poise.plan.space import least, space
from poise.plan.unit import units
from tests.plan.deploy.fleets import WORKLOAD, a_pool

from .cases import COST, DEVICES, MODEL, PRICES, a_bench, a_demand, a_goal, pools

H100, L40S = (each.name for each in DEVICES)


def test_what_may_be_given() -> None:
    assert read_caps(None, DEVICES, wanted=False) == {} == read_caps("none", DEVICES, wanted=True)
    every = {H100: (700.0, 560.0, 455.0, 350.0), L40S: (350.0, 280.0, 228.0, 175.0)}
    assert read_caps(None, DEVICES, wanted=True) == every == read_caps("ladder", DEVICES, wanted=False)
    assert read_caps("H100=500, H100=400", DEVICES, wanted=False) == {H100: (500.0, 400.0), L40S: (350.0,)}
    assert ladder([replace(DEVICES[0], tdp_w=0.0)]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H100", "says no watts"),
        ("A100=300", "is not among --devices"),
        ("H100=warm", "'warm' is not a number"),
        ("H100=140", "must be above 140 W, which it draws idle, and at most 700 W"),
        ("H100=701", "at most 700 W, its TDP"),
        (",", "says nothing"),
    ],
)
def test_what_may_not(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_caps(text, DEVICES, wanted=False)


def test_each_cap_is_a_kind_of_replica() -> None:
    engine = replace(Engine(), max_sequences=64)
    plain = pools(1)
    capped = units(MODEL, DEVICES, PRICES, engine=engine, widest=1, caps=ladder(DEVICES)).able
    assert len(capped) == (1 + len(LADDER)) * len(plain)
    assert {unit_name(pool) for pool in plain} < {unit_name(pool) for pool in capped}
    assert "H100-SXM-80GB fp8 455W" in {unit_name(pool) for pool in capped}


def test_the_tdp_as_a_cap_changes_power_alone_and_no_cap_changes_nothing() -> None:
    bench = a_bench()
    plain = Fleet((replace(pools(1)[0], replicas=3),))
    stated, slow = (Fleet((replace(plain.pools[0], power_cap_w=watts),)) for watts in (700.0, 350.0))
    without, at_tdp, capped = (bench.trial(fleet) for fleet in (plain, stated, slow))
    same = ("attainment", "ttft_s", "tpot_s", "busy_time", "hit", "usd_per_mtok")
    assert [getattr(without, name) for name in same] == [getattr(at_tdp, name) for name in same]
    assert plain.idle_w < capped.watts < at_tdp.watts < without.watts, "decodes draw less than the TDP"
    assert capped.watts <= slow.power_w == 3 * 350.0
    assert capped.ttft_s is not None and at_tdp.ttft_s is not None and capped.ttft_s > at_tdp.ttft_s
    assert capped.watts >= 3 * 700 * POWER.idle


def test_energy_is_least_where_caps_may_be_and_closed_forms_stay_below() -> None:
    bench = a_bench(goal=a_goal(minimize="energy"))
    engine = replace(Engine(), max_sequences=64)
    values = {}
    for name, caps in {"tdp": {each.name: (each.tdp_w,) for each in DEVICES}, "ladder": ladder(DEVICES)}.items():
        able = units(MODEL, DEVICES, PRICES, engine=engine, widest=1, caps=caps).able
        where = space(able, bench.demand, bench.goal, COST, mix=False, split=False)
        found = search(where, bench, Limits(bench.goal))
        assert found.winner is not None
        values[name] = found.winner.value(bench.goal)
        kinds = {kind.name: kind for kind in where.kinds}
        for made, trial in found.best.items():
            if made in kinds:
                assert least(kinds[made], bench.demand, bench.goal) <= trial.value(bench.goal)
    assert values["ladder"] < values["tdp"]


def test_a_limit_on_power_is_held_by_caps() -> None:
    limit = 2500.0
    goal = replace(a_goal(ttft_s=2.0, tpot_s=0.1, minimize="gpus"), power_w=limit)
    bench = a_bench(a_demand(rate=180.0), goal)
    engine = replace(Engine(), max_sequences=64)
    best = {}
    for name, caps in {"none": {}, "ladder": ladder(DEVICES[:1])}.items():
        able = units(MODEL, DEVICES[:1], PRICES, formats=("bf16",), engine=engine, widest=1, caps=caps).able
        where = space(able, bench.demand, goal, COST, mix=False, split=False)
        best[name] = search(where, bench, Limits(goal)).winner
    assert best["none"] is None, "four devices at their TDP pass the limit"
    assert best["ladder"] is not None and best["ladder"].fleet.power_w <= limit
    assert best["ladder"].fleet.devices >= 4


def test_what_is_written_caps_the_devices() -> None:
    fleet = Fleet((a_pool(replicas=2, tensor=2, power_cap_w=500.0),))
    setting = Setting(workload=WORKLOAD)
    script = vllm.commands(fleet, setting)
    assert "nvidia-smi --id=0,1 --power-limit=500\n" in script and "--id=2,3 --power-limit=500\n" in script
    assert "run as root, for power caps" in script
    manifest = kubernetes(fleet, setting)
    assert "# Cap the nodes of H100-SXM-80GB first, as root: nvidia-smi --power-limit=500" in manifest
    assert "poise/power-cap-w: '500'" in manifest or 'poise/power-cap-w: "500"' in manifest
    plain = Fleet((a_pool(replicas=2, tensor=2, power_cap_w=700.0),))
    assert "power" not in vllm.commands(plain, setting) + kubernetes(plain, setting)
    amd = a_pool(kind="MI300X", power_cap_w=500.0)
    assert cap_command(amd, [0, 1]) == ["amd-smi", "set", "--gpu", "0", "1", "--power-cap", "500"]
