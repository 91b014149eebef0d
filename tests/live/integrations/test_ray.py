"""Real Ray Serve with two replicas, whose calls go where Poise's control says."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
import venv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from poise.core.action import Dispatch
from poise.core.control.control import Control
from poise.core.records.trace import Trace, replay
from poise.core.spec import ReplicaSpec
from poise.live.integrations.choice import Fallback
from poise.policies import Policies
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.integrations.shed import Shed

pytestmark = pytest.mark.slow

RAY = "ray[serve]==2.60.0"
PATIENT = {f"RAY_SERVE_{each}QUEUE_LENGTH_RESPONSE_DEADLINE_S": "30" for each in ("", "MAX_")}
"""A replica that is slow to say how long its queue is, as on a busy machine, is not passed over for the other."""
LIVE = ("httptools", "jinja2", "prometheus-client", "pyzmq", "tokenizers", "uvloop", "xxhash")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with Ray and what Poise needs; POISE_RAY_PYTHON names one that is there already."""
    given = os.environ.get("POISE_RAY_PYTHON")
    if given:
        return given
    folder = tmp_path_factory.mktemp("ray")
    venv.create(folder, with_pip=True)
    made = folder / "bin" / "python"
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    command = [made, "-m", "pip", "install", "--quiet", RAY, *ours, *LIVE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if done.returncode:
        pytest.skip(f"cannot install {RAY}: {done.stderr.strip()[-200:]}")
    return str(made)


@pytest.fixture(scope="module")
def seen(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened in the scene."""
    folder = tmp_path_factory.mktemp("scene")
    ours = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**os.environ, **PATIENT, **ours}
    out = folder / "told.json"
    done = subprocess.run(
        [python, "-m", "tests.live.integrations.ray_scene", str(out)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(out.read_text())
    return result


@pytest.fixture
def trace(seen: dict[str, Any]) -> Trace:
    trace = Trace()
    trace.lines = seen["trace"]
    return trace


def test_calls_with_one_beginning_go_to_one_replica(seen: dict[str, Any]) -> None:
    assert all(len(set(homes)) == 1 for homes in seen["homes"])
    assert {homes[0] for homes in seen["homes"]} == {seen["homes"][0][0], seen["homes"][1][0]}
    assert len({homes[0] for homes in seen["homes"]}) == 2, "and different ones to both"
    assert len(set(seen["chats"])) == 1


def test_calls_under_way_are_counted(seen: dict[str, Any]) -> None:
    assert seen["under_way"][:2] == [1, 1]
    assert seen["freed"] == seen["waited"] == [seen["homes"][0][0], seen["homes"][1][0]]


def test_who_is_turned_away_hears_when_to_come_again(seen: dict[str, Any]) -> None:
    assert seen["shed"] == [429, 2]


def test_a_dead_replica_is_lost_and_its_calls_go_to_the_other(seen: dict[str, Any], trace: Trace) -> None:
    assert seen["died"] == "ActorDiedError"
    assert seen["victim"] == seen["homes"][0][0]
    assert set(seen["after"]) == {seen["homes"][1][0]}
    assert Counter(type(each).__name__ for each in trace.events)["ReplicaLost"] == 1


def test_every_call_ends_once(seen: dict[str, Any], trace: Trace) -> None:
    counts = Counter(type(each).__name__ for each in trace.items())
    assert seen["balance"] == [0, 0, 0]
    assert counts["Arrived"] == counts["Finished"] + counts["Failed"] + counts["Cancelled"] + counts["Refuse"]
    assert (counts["Finished"], counts["Failed"], counts["Refuse"]) == (28, 1, 1)


def test_a_control_alone_decides_the_same(trace: Trace) -> None:
    control = Control(
        Policies(router=Fallback(PrefixCache(imbalance=8), 1), admission=[Shed()]),
        [ReplicaSpec(up=False)] * 64,
        tries=2,
        resume=False,
    )
    assert any(isinstance(each, Dispatch) for each in trace.actions)
    assert replay(trace.events, control) == list(trace.actions)
