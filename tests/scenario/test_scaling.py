"""Scalers in a scenario: stages of a start, bounds, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.core.records.trace import Trace
from poise.cost.memory import footprint
from poise.recordings.control import replayed
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.record import trace_header
from poise.scenario.resolve import resolved, write_yaml
from poise.scenario.run import Keep, run

POOL = "{device: H100, model: llama-3.1-8b, replicas: 1, max_replicas: 3, startup: {image_s: 2, weights_from: host}}"
SCENARIO = f"""
cluster: {{pools: [{POOL}]}}
workload: {{poisson: {{rate: 30, duration_s: 40, prompt_tokens: 500, output_tokens: 100}}}}
policies: {{scaler: {{kpa: {{target: 8, stable_s: 10.0, panic_s: 2.0}}}}, forecast: recent}}
"""


def problem(tmp_path: Path, text: str = SCENARIO) -> Any:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return build(load(path))


def test_weights_take_their_bytes_over_the_host_links(tmp_path: Path) -> None:
    (pool,) = problem(tmp_path).cluster.pools
    assert pool.startup is not None
    assert pool.startup.weights_s == pytest.approx(footprint(pool).weights / pool.device.host_bw)
    assert (pool.bounds, pool.slots, pool.startup.warming_s) == ((1, 3), 3, 2.0)


def test_a_run_scales_its_record_replays_and_its_resolution_is_the_same(tmp_path: Path) -> None:
    changed = problem(tmp_path)
    trace = Trace(trace_header(changed))
    outcome = run(changed, keep=Keep(trace=trace))
    result = outcome.as_dict()
    assert result["scaling"]["scale_ups"] >= 1 and result["replica_hours"] > 0
    for recorded, decided in replayed(trace):
        assert sorted(map(str, recorded)) == sorted(map(str, decided))
    write_yaml(resolved(changed), tmp_path / "again.yaml")
    again = build(load(tmp_path / "again.yaml"))
    assert again.cluster == changed.cluster
    assert run(again).as_dict()["per_seed"][0]["scaling"] == result["per_seed"][0]["scaling"]


WRONG = {
    "replicas: 1, max_": ("replicas: 5, max_", "max_replicas: 3 must be at least replicas 5"),
    "replicas: 1, max": ("replicas: 1, min_replicas: 2, max", "min_replicas: 2 must be at most replicas 1"),
    "max_replicas: 3,": ("", "no pool may change its size"),
    "weights_from: host": ("weights_from: disk", "disk has no rate of its own; give weights_gb_s"),
    "image_s: 2": ("image_s: 2, weights_s: 3", "conflicts with weights_s"),
    "image_s: 2, weights_from: host": ("weights_gb_s: 3", "needs weights_from"),
    "startup:": ("start_s: 3, startup:", "conflicts with start_s"),
    "forecast: recent": ("forecast: recenf", "no forecast; did you mean recent"),
    "{scaler: {kpa: {target: 8, stable_s: 10.0, panic_s: 2.0}}, ": ("{", "no scaler uses it; name a scaler"),
    "{scaler: {kpa: {target: 8, stable_s: 10.0, panic_s: 2.0}}, forecast: recent}": (
        "{}",
        "cluster.pools.0.max_replicas: no scaler changes the number; name a policies.scaler",
    ),
    "policies:": ("belief: {gateways: 2}\npolicies:", "2 know their own requests alone"),
    "{pools:": ("{faults: [{at_s: 1, kind: join, replica: 0}], pools:", "join cannot be where a scaler decides"),
}


@pytest.mark.parametrize("found", WRONG, ids=lambda each: each[:20])
def test_what_cannot_be_is_reported_with_its_place(tmp_path: Path, found: str) -> None:
    instead, expected = WRONG[found]
    with pytest.raises(UserError) as error:
        problem(tmp_path, SCENARIO.replace(found, instead, 1))
    assert expected in str(error.value) and "s.yaml" in str(error.value)
