"""Numbers too large for any run are errors of one line that name the field; what is just allowed runs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.magnitude import LARGEST, LONGEST_S
from poise.scenario.run import run
from poise.workload import closed, gamma, on_off
from tests.test_fuzz import paths

LENGTHS = {"prompt_tokens": 100, "output_tokens": 5}
PLAIN: dict[str, Any] = {
    "model": "poise/tiny",
    "cluster": {"pools": [{"device": "H100", "replicas": 2, "start_s": 0.1, "price": 2.0, "power_cap_w": 600.0}]},
    "workload": {
        "poisson": {"rate": 20, "requests": 20, "max_tokens": 50, **LENGTHS},
        "shared_prefixes": {"groups": 5, "prefix_tokens": 100, "zipf": 1.0},
        "sessions": {"turns": 2, "think_s": 0.1},
        "timeout_s": 5.0,
        "deadline_s": 3.0,
        "priority": 1,
    },
    "slo": {"ttft_s": 1.0, "tpot_s": 0.1, "e2e_s": 9.0},
    "belief": {"period_s": 1.0, "delay_s": 0.1, "gateways": 1},
    "engine": {"token_budget": 512, "max_sequences": 8, "block_tokens": 16, "memory_fraction": 0.9, "kv_blocks": 999},
    "run": {"seeds": 1, "warmup_s": 0.1, "until_s": 50.0},
    "policies": {"router": {"prefix_cache": {"imbalance": 16}}},
}
SOURCES: tuple[dict[str, Any], ...] = (
    {"gamma": {"rate": 20, "requests": 9, "cv": 1.5, **LENGTHS}},
    {"on_off": {"rate_on": 20, "rate_off": 1, "on_s": 2, "off_s": 1, "requests": 9, **LENGTHS}},
    {"burstgpt": {"rate": 20, "requests": 9, "cv": 2.0, "spread": 1.4, "begin_s": 0, **LENGTHS}},
    {"diurnal": {"points": [[0, 2], [60, 20]], "requests": 9, "spikes": [{"at_s": 1, "lasting_s": 2, "factor": 2}]}},
    {"phases": [{"rate": 20, "duration_s": 1, "cv": 1.0, **LENGTHS}]},
    {"constant": {"gap_s": 0.1, "requests": 9, **LENGTHS}},
    {"closed": {"concurrency": 4, "requests": 9, **LENGTHS}},
)
FAULTS: dict[str, Any] = {"faults": [{"at_s": 0.2, "kind": "slow", "replica": 0, "for_s": 0.5, "factor": 2.0}]}
TREES = (
    PLAIN,
    *({**PLAIN, "workload": source} for source in SOURCES),
    {**PLAIN, "cluster": {**PLAIN["cluster"], **FAULTS}},
)


def numbers(tree: Any) -> list[tuple[Any, ...]]:
    """The ways to all numbers in `tree`."""
    return [way for way in paths(tree) if type(_at(tree, way)) in (int, float)]


def _at(tree: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        tree = tree[key]
    return tree


def changed(tree: Any, way: tuple[Any, ...], value: float, folder: Path) -> Path:
    """A scenario file of `tree` with another number at one place."""
    tree = copy.deepcopy(tree)
    _at(tree, way[:-1])[way[-1]] = value
    file = folder / "s.yaml"
    file.write_text(json.dumps(tree))
    return file


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: next(iter(tree["workload"])))
def test_no_number_of_a_scenario_overflows(tree: dict[str, Any], tmp_path: Path) -> None:
    """Each in turn; none is accepted."""
    for way in numbers(tree):
        for value in (10**30, 1e308):
            with pytest.raises(UserError) as raised:
                build(load(changed(tree, way, value, tmp_path)))
            assert "\n" not in str(raised.value) and len(str(raised.value)) < 500
            names = [key for key in way if isinstance(key, str)]
            assert names[-1] in str(raised.value) or names[-2] in str(raised.value)


@pytest.mark.parametrize("field", ["deadline_s", "timeout_s"])
def test_the_longest_time_runs(field: str, tmp_path: Path) -> None:
    outcome = run(build(load(changed(PLAIN, ("workload", field), LONGEST_S, tmp_path))))
    assert not outcome.interrupted
    with pytest.raises(
        UserError, match=rf"workload\.{field}: 4000001 must be at most 4,000,000 \(46 days\); give less"
    ):
        load(changed(PLAIN, ("workload", field), LONGEST_S + 1, tmp_path))


def test_bandwidths_and_seeds_are_no_times(tmp_path: Path) -> None:
    fast = {**PLAIN, "cluster": {**PLAIN["cluster"], "link_gb_s": 1.0}}
    load(changed(fast, ("cluster", "link_gb_s"), 2.0 * LONGEST_S, tmp_path))
    seeds = load(changed(PLAIN, ("run", "seeds"), 1, tmp_path), ["run.seeds=[18446744073709551615]"])
    assert seeds.scenario.run.seeds == [2**64 - 1] and LARGEST < 2**64


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"classes": {"a": {"tenant": 9 * 10**14}}}, "tenant is 900000000000000"),
        ({"shift": {"after": 0.5, "prompt": 1e9}}, r"prompt is 1e\+09, and 100 tokens times that are too many"),
        ({"cut": {"output_tokens": 9 * 10**14}}, "output_tokens is 900000000000000"),
        ({"sessions": {"turns": 10**9}}, "turns"),
        ({"sessions": {"turns": 2, "think_s": {"exponential": 4e6}}}, "think_s draws .* s, and a run has at most 53"),
        ({"sessions": {"turns": 2, "tool": "t", "hung": 0.5, "hung_s": {"exponential": 4e6}}}, "hung_s draws"),
        ({"shared_prefixes": {"groups": 10**9, "prefix_tokens": 9}}, "groups is 1000000000"),
        ({"shared_prefixes": {"groups": 9, "prefix_tokens": 9, "depth": 10**6}}, "depth is 1000000"),
    ],
)
def test_what_a_column_or_the_memory_cannot_hold_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    source = {"poisson": {"rate": 20, "requests": 20, **LENGTHS}}
    problem = build(load(changed({**PLAIN, "workload": source | more}, ("run", "warmup_s"), 0.0, tmp_path)))
    with pytest.raises(UserError, match=message):
        problem.traffic.make(0)


def test_a_generator_that_would_not_end_is_refused() -> None:
    with pytest.raises(UserError, match="cv is 1e"):
        gamma(20.0, 1e9, duration_s=5.0)
    with pytest.raises(UserError, match="requests is 1000000000000"):
        on_off(20.0, on_s=1.0, off_s=1.0, requests=10**12)
    assert closed(10**12, 5).concurrency == 5
