"""Policies by name, by module and class, by entry point; and what is said when there is none."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import ScenarioError
from poise.core.slot import SLOTS
from poise.policies.find import build, find, names
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin

NEEDED = {("scaler", "slo_optimizer"): {"profile": [[100, 100, 5.0]]}, ("forecast", "constant"): {"rate": 2.0}}
"""What has no default, for only the user can know it."""


def test_every_file_is_found_by_its_name() -> None:
    assert {"round_robin", "least_requests", "least_tokens", "prefix_cache"} <= set(names("router"))
    for slot in SLOTS:
        for name in names(slot):
            assert find(slot, name).__module__.endswith(f".{name}")
            assert build(slot, name, NEEDED.get((slot, name))) is not None


def test_a_class_elsewhere_is_named_by_module_and_class() -> None:
    assert find("router", "poise.policies.route.round_robin:RoundRobin") is RoundRobin


def test_parameters_reach_the_class() -> None:
    assert build("router", "prefix_cache", {"imbalance": 4, "deviations": 1}) == PrefixCache(4, 1)


def test_an_entry_point_fills_the_slot_that_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "mine"

        def load(self) -> Any:
            return RoundRobin

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry()] if group == "poise.policies" else [])
    assert find("router", "mine") is RoundRobin
    assert "mine" in names("router") and "mine" not in names("batcher")


@pytest.mark.parametrize(
    ("slot", "name", "parameters", "message"),
    [
        ("router", "round_robbin", {}, r"policies\.router: 'round_robbin' is no router; did you mean round_robin"),
        ("router", "xyz", {}, "known: .*least_requests"),
        ("router", "prefix_cache", {"imbalence": 3}, r"unknown parameter 'imbalence'; did you mean imbalance\?"),
        ("router", "prefix_cache", {"imbalance": "x"}, "'x' is no int; give a value like 16"),
        ("router", "prefix_cache", {"imbalance": True}, "True is no int"),
        ("router", "nowhere:Thing", {}, "cannot import 'nowhere'"),
        ("router", "poise.policies.route.round_robin:Nothing", {}, "has no class 'Nothing'; name one that is in it"),
        ("router", "poise.policies.batch.chunked:Chunked", {}, "has no method 'route', which a router must have"),
        ("batcher", "chunk", {}, "did you mean chunked"),
        ("batcher", "chunked", {"long_prefill": -1}, r"chunked\.long_prefill: -1 is below 0; give 0 or more"),
        ("router", "llumnix", {"block_tokens": 0}, r"llumnix: block_tokens 0, step_s 0\.03: give at least 1 token"),
        ("mover", "central_search", {"step_s": 0.0}, r"block_tokens 16, step_s 0\.0: .* seconds above 0"),
        ("mover", "negotiation", {"block_tokens": 0}, "give at least 1 token"),
        ("lender", "infinite_llm", {"block_tokens": 0}, "give at least 1 token"),
        ("scaler", "apa", {"window_s": -1.0}, r"apa\.window_s: -1.0 is below 0; give 0 or more"),
        ("order", "deficit_round_robin", {"quantum": -1.0}, "quantum"),
        ("router", "dualmap", {"ttft_s": float("inf")}, r"dualmap\.ttft_s: inf is not finite; give a number"),
        ("order", "edf", {"ttft_s": float("nan")}, "nan is not finite"),
        ("order", "virtual_token_counter", {"weights": {0: float("inf")}}, "is not finite"),
        ("order", "virtual_token_counter", {"weights": "bogus"}, r"weights: 'bogus' is no mapping by number; give one"),
        ("admission", "tenant_limits", {"tenants": {"a": {}}}, r"tenants: .* is no mapping by number"),
    ],
)
def test_errors_name_the_cure(slot: str, name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build(slot, name, parameters)


def test_what_may_be_below_0_is_left_alone() -> None:
    assert build("router", "llumnix", {"high": -1}).high == -1
    assert build("preempt", "fast_switch", {"seed": -3}).seed == -3


MODULE = '''
class Needy:
    """A router with parameters."""

    needs = ()

    def __init__(self, share: float, name: str = "x", limit: int | None = None) -> None:
        if share > 1:
            raise ValueError("share 2 is above 1; give a part of 1")
        self.share = share

    def route(self, request, cluster, chance):
        raise NotImplementedError
'''


@pytest.fixture
def needy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A router in a module of the user's own."""
    (tmp_path / "needy_routers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "needy_routers", raising=False)
    return "needy_routers:Needy"


def test_the_users_own_class_is_built(needy: str) -> None:
    assert build("router", needy, {"share": 1, "limit": 4}).share == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "parameter 'share' is missing; give it a value"),
        ({"share": 0.5, "name": 3}, "name: 3 is no str; give a value like 'x'"),
        ({"share": 0.5, "shade": 3}, r"unknown parameter 'shade'; did you mean share\?"),
        ({"share": 0.5, "zzz": 3}, "unknown parameter 'zzz'; it has share, name, limit"),
        ({"share": 2}, "share 2 is above 1; give a part of 1"),
    ],
)
def test_parameters_are_checked_against_the_class_itself(needy: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as raised:
        build("router", needy, parameters)
    assert str(raised.value).startswith(f"policies.router.{needy}")


def test_a_policy_that_another_package_registers_must_fit_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "theirs"

        def load(self) -> Any:
            return PrefixCache

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry()])
    with pytest.raises(ScenarioError, match="'theirs' is no batcher"):
        find("batcher", "theirs")
    assert "theirs" not in names("cache")
