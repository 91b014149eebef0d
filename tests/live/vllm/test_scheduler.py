"""Real vLLM with a tiny model, steered by Poise: what it computes in each step is what is simulated."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cached import Unavailable
from tests.live.real.engines import SILENT
from tests.live.real.install import installed
from tests.live.real.model import make
from tests.live.vllm.worlds import Step, a_world, in_order

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[3]
LIMIT_S: Final = 500.0
"""Longest time for all worlds; a minute to start and one to two to play are usual."""

CHOICES: Final[tuple[dict[str, Any] | None, ...]] = (
    None,  # vLLM's own scheduler, which `chunked` mirrors
    {"batcher": "chunked"},
    {"batcher": "prefill_first"},
    {"batcher": "chunked", "queue": "priority"},
    {"batcher": {"sarathi": {"tokens": 24, "mixed": False}}},
    {"batcher": "tests.live.vllm.behind:Behind"},
)
KINDS: Final[dict[str, dict[str, Any]]] = {
    "prefixes found": {"caching": True},
    "preempted": {"crowded": True, "caching": False},
}
EVICTED: Final = {"crowded": True, "caching": True}
"""Not in all of these are all steps as simulated (docs/integrations.md says why); in those tried here they are."""

OWN, STEERED = CHOICES[:2]


def _name(chosen: dict[str, Any] | None, kind: str, seed: int) -> str:
    named = "vLLM's own" if chosen is None else ", ".join(map(_short, chosen.values()))
    return f"{named}: {kind}, {seed}"


def _short(chosen: Any) -> str:
    return chosen if isinstance(chosen, str) else str(next(iter(chosen)))


SIMULATED: Final = {
    _name(chosen, kind, seed): a_world(seed, chosen, reserve=False, **given)
    for chosen in CHOICES
    for kind, given in KINDS.items()
    for seed in (1, 2)
} | {
    _name(chosen, "evicted", seed): a_world(seed, chosen, reserve=False, **EVICTED)
    for chosen in CHOICES
    for seed in (3, 4, 6, 10)
}
AHEAD: Final = {
    _name(chosen, f"ahead, {kind}", seed): a_world(seed, chosen, reserve=False, ahead=True, **given)
    for chosen in (OWN, STEERED)
    for kind, given in KINDS.items()
    for seed in (1, 2, 47, 52)
}
WORLDS: Final = {**SIMULATED, **AHEAD}


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Step]]:
    """What vLLM computed in each world, by its name."""
    folder = tmp_path_factory.mktemp("inside")
    try:
        programs = installed()
    except Unavailable as why:
        pytest.skip(str(why))
    model, worlds, out = make(folder / "model"), folder / "worlds.json", folder / "steps.json"
    worlds.write_text(json.dumps([asdict(world) for world in WORLDS.values()]))
    done = subprocess.run(
        [programs / "python", "-m", "tests.live.vllm.scene", model, worlds, out],
        cwd=ROOT, env={**os.environ, **SILENT, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    steps = [
        [(at, {int(id): count for id, count in tokens.items()}, gave_way) for at, tokens, gave_way in each]
        for each in json.loads(out.read_text())
    ]
    return {name: in_order(each) for name, each in zip(WORLDS, steps, strict=True)}


@pytest.mark.parametrize("name", SIMULATED)
def test_computes_what_is_simulated(happened: dict[str, list[Step]], name: str) -> None:
    assert happened[name] == in_order(SIMULATED[name].simulated())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 47, 52])
def test_a_step_ahead_it_computes_what_vllm_computes_alone(
    happened: dict[str, list[Step]], kind: str, seed: int
) -> None:
    """Asynchronous scheduling, before vLLM's own scheduler without a model: CPUs run no step ahead."""
    assert happened[_name(STEERED, f"ahead, {kind}", seed)] == happened[_name(OWN, f"ahead, {kind}", seed)]


def test_there_is_something_to_decide(happened: dict[str, list[Step]]) -> None:
    assert sum(len(gave_way) for steps in happened.values() for _, _, gave_way in steps) >= 50
    for kind in KINDS:
        steps = [happened[_name(chosen, kind, 1)] for chosen in CHOICES]
        assert len({json.dumps(each) for each in steps}) >= 3, "policies differ in what they do"


def test_a_found_prefix_is_not_computed_again(happened: dict[str, list[Step]]) -> None:
    for chosen in CHOICES:
        name = _name(chosen, "prefixes found", 1)
        world = SIMULATED[name]
        computed = sum(sum(tokens.values()) for _, tokens, _ in happened[name])
        assert computed <= sum(ask.prompt + ask.output - 1 for ask in world.asks) - 32
