"""SGLang's own scheduler on random queues: what it computes in each step is what is simulated."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from tests.cached import Unavailable
from tests.live.real.install import installed
from tests.live.sglang.asks import Step, World, a_world
from tests.live.sglang.install import package
from tests.live.sglang.simulated import simulated

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[3]
LIMIT_S: Final = 900.0
"""Longest time for all worlds; a minute is usual on a quiet machine."""

WORLDS: Final = [a_world(seed) for seed in range(300)]
EVICTED: Final = {seed for seed, world in enumerate(WORLDS) if world.caching and world.scarce}
"""Worlds in which prefixes are cached and evicted: there the order of evictions is not SGLang's in every case."""


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> list[list[Step]]:
    """What SGLang computed in each world."""
    folder = tmp_path_factory.mktemp("inside")
    try:
        python, sglang = installed() / "python", package()
    except Unavailable as why:
        pytest.skip(str(why))
    worlds, out = folder / "worlds.json", folder / "steps.json"
    worlds.write_text(json.dumps([asdict(world) for world in WORLDS]))
    done = subprocess.run(
        [python, "-m", "tests.live.sglang.inside", worlds, out],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{sglang}", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [_read(steps) for steps in json.loads(out.read_text())]


def _read(steps: list[tuple[int, dict[str, int], list[int]]]) -> list[Step]:
    return _in_order([(at, {int(id): count for id, count in tokens.items()}, gone) for at, tokens, gone in steps])


def _in_order(steps: list[Step]) -> list[Step]:
    """The steps with their requests in order of id: within one step, order says nothing."""
    return [(at, dict(sorted(tokens.items())), sorted(gone)) for at, tokens, gone in steps]


def _same(world: World, steps: list[Step]) -> bool:
    return _in_order(simulated(world)) == steps


def test_computes_what_is_simulated(happened: list[list[Step]]) -> None:
    assert [seed for seed in range(300) if seed not in EVICTED and not _same(WORLDS[seed], happened[seed])] == []


def test_where_prefixes_are_evicted_most_queues_are_the_same(happened: list[list[Step]]) -> None:
    same = [seed for seed in EVICTED if _same(WORLDS[seed], happened[seed])]
    assert len(EVICTED) >= 60
    assert len(same) >= 0.94 * len(EVICTED)


def test_there_is_something_to_decide(happened: list[list[Step]]) -> None:
    assert sum(len(gone) for steps in happened for _, _, gone in steps) >= 10, "requests are retracted"
    for setting in ("mixed", "ignore_eos", "prefills", "caching"):
        assert {bool(getattr(world, setting)) for world in WORLDS} == {True, False}
    assert {world.order for world in WORLDS} == {"fcfs", "lpm", "lof", "priority"}
