"""Who may import whom: the promise that a policy cannot know in which world it runs, held by reading the source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import poise

ROOT = Path(poise.__file__).parent

GROUND = {"core", "experts", "program"}
TOOLS = {"catalogue", "cost", "intervals", "pipeline", "policies", "report", "sharding", "testing", "workload"}
EXPERIMENT = {"experiment"}
WORLDS = {"live", "runtime", "sim"}
TASKS = {"claims", "plan", "recordings", "scenario", "validation"}

MAY: dict[str, set[str]] = {
    "core": set(),
    "experts": {"core"},
    "program": {"core"},
    **dict.fromkeys(TOOLS, GROUND),
    **{room: GROUND | TOOLS - {"policies"} for room in WORLDS},
    "experiment": GROUND | {"report"},  # it knows no world
    "scenario": GROUND | TOOLS | EXPERIMENT | WORLDS,
    "claims": GROUND | TOOLS | EXPERIMENT | {"scenario"},  # experiments are comparisons
    "recordings": GROUND | TOOLS | EXPERIMENT | WORLDS | {"scenario"},  # what-ifs are comparisons too
    "validation": GROUND | TOOLS | EXPERIMENT | WORLDS | {"recordings", "scenario"},
    "plan": GROUND | TOOLS | EXPERIMENT | WORLDS | {"scenario"},
    "ui": GROUND | TOOLS | EXPERIMENT,  # it knows commands, not what they do
    "cli": GROUND | TOOLS | EXPERIMENT | WORLDS | TASKS | {"ui"},
    "__main__": {"cli"},
    "__init__": GROUND | TOOLS | TASKS,  # the face, which loads lazily
}
"""For each room, the rooms that it may import besides itself: each step those below it, never its neighbours."""

HEAVY = {"torch", "ortools", "numpy", "highspy", "polars", "pydantic", "rich", "plotly", "ruamel", "typer", "msgspec"}


class Import(NamedTuple):
    """One import statement: the room it stands in and the room or package it brings in."""

    room: str
    brings: str
    where: str
    typing_only: bool


def _imports(file: Path, root: Path) -> Iterator[Import]:
    room = file.relative_to(root).parts[0].removesuffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for name in _names(node, file, root):
            yield Import(room, name, f"{file.relative_to(root.parent)}:{node.lineno}", node in guarded)  # type: ignore[attr-defined]


def _names(node: ast.AST, file: Path, root: Path) -> Iterator[str]:
    """The rooms of poise as `poise.ROOM`, the top packages of everything else."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = (root.name, *file.relative_to(root).parent.parts)
            base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [node.module])))
        modules = [f"{base}.{alias.name}" for alias in node.names] if base == root.name else [base]
    else:
        return
    for module in modules:
        parts = module.split(".")
        yield ".".join(parts[:2]) if parts[0] == root.name else parts[0]


@cache
def _all(root: Path = ROOT) -> list[Import]:
    return [each for file in sorted(root.rglob("*.py")) for each in _imports(file, root)]


def _violations(root: Path = ROOT) -> list[str]:
    """Every import that climbs or goes sideways, named. What only a type checker reads is no knowledge at run time."""
    found = []
    for each in _all(root):
        if not each.brings.startswith("poise.") or each.typing_only:
            continue
        target = each.brings.removeprefix("poise.")
        if target == each.room:
            continue
        if target not in MAY.get(each.room, set()):
            allowed = ", ".join(sorted(MAY.get(each.room, set()))) or "no other room"
            found.append(f"{each.where}: {each.room} imports {target}; it may import {allowed}")
    return found


def test_rooms_are_known() -> None:
    rooms = {each.name.removesuffix(".py") for each in ROOT.iterdir() if each.suffix == ".py" or each.is_dir()}
    assert rooms - {"__pycache__", "py.typed"} <= set(MAY), "a new room needs its place in MAY"


def test_imports_go_down_only() -> None:
    assert not _violations(), "\n".join(_violations())


def test_core_needs_only_the_standard_library() -> None:
    known = sys.stdlib_module_names | {"poise.core"}
    wrong = [f"{each.where}: core imports {each.brings}" for each in _all() if each.room == "core"]
    wrong = [line for line in wrong if line.rpartition(" ")[2] not in known]
    assert not wrong, "\n".join(wrong)


def test_policies_need_only_core_and_numbers() -> None:
    known = sys.stdlib_module_names | {"poise.core", "poise.experts", "poise.policies", "numpy", "highspy"}
    wrong = [each for each in _all() if each.room == "policies" and each.brings not in known]
    assert not wrong


def test_decisions_read_no_clock_and_draw_no_chance_of_their_own() -> None:
    given = {"asyncio", "datetime", "logging", "random", "secrets", "time"}
    wrong = [each.where for each in _all() if each.room in ("core", "policies", "pipeline") and each.brings in given]
    assert not wrong


def test_worlds_do_not_meet_and_do_not_know_policies() -> None:
    for world in WORLDS:
        assert not MAY[world] & (WORLDS | {"policies"} | TASKS)


def test_only_the_command_line_imports_validation() -> None:
    """The wheel of Poise leaves `poise.validation` out, so nothing else in it may need it."""
    wrong = [
        each.where for each in _all() if each.brings == "poise.validation" and each.room not in ("cli", "validation")
    ]
    assert not wrong


def test_no_room_imports_the_command_line() -> None:
    wrong = [each.where for each in _all() if each.brings == "poise.cli" and each.room not in ("__main__", "cli")]
    assert not wrong


def test_only_claims_and_the_command_line_stand_above_the_face() -> None:
    wrong = [each.where for each in _all() if each.brings == "poise" and each.room not in ("__main__", "claims", "cli")]
    assert not wrong


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("core/view.py", "from poise.policies import Policies", "core imports policies"),
        ("policies/route/x.py", "from ...sim import world", "policies imports sim"),
        ("sim/world.py", "import poise.live.gateway", "sim imports live"),
        ("sim/world.py", "def f():\n    from poise.policies.find import build", "sim imports policies"),
        ("cost/roofline.py", "from poise import workload", "cost imports workload"),
        ("report/html.py", "from poise.cli import app", "report imports cli"),
    ],
)
def test_a_violation_is_named(tmp_path: Path, file: str, line: str, expected: str) -> None:
    target = tmp_path / "poise" / file
    target.parent.mkdir(parents=True)
    target.write_text(line)
    assert [
        expected in violation and f"poise/{file}:" in violation for violation in _violations(tmp_path / "poise")
    ] == [True]


def test_types_may_look_anywhere(tmp_path: Path) -> None:
    target = tmp_path / "poise" / "testing" / "x.py"
    target.parent.mkdir(parents=True)
    target.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from poise.sim.world import World\n")
    assert not _violations(tmp_path / "poise")


RINGS: dict[str, set[str]] = {
    # An engine's parts know the engine that they belong to.
    "core.engine.adapters": {"core.engine.replica"},
    "core.engine.flows": {"core.engine.replica"},
    "core.engine.kv_loans": {"core.engine.replica"},
    "core.engine.kv_transfer": {"core.engine.replica"},
    "core.engine.lane": {"core.engine.replica"},
    "core.engine.plain": {"core.engine.lane", "core.engine.replica"},
    "core.engine.preemption": {"core.engine.replica"},
    "core.engine.shared_device": {"core.engine.lane", "core.engine.replica"},
    "core.engine.swapping": {"core.engine.replica"},
    # A Program can be numbered and proven, by parts that know it.
    "program.program": {"program.index", "program.prove"},
    # So do those of a `Control` and of a gateway.
    "core.control.hedging": {"core.control.control"},
    "core.control.policy_exchange": {"core.control.control"},
    "live.gateway.disaggregated": {"live.gateway.proxied_request"},
    "live.gateway.hedged_attempt": {"live.gateway.proxied_request", "live.gateway.world"},
    "live.gateway.proxied_request": {"live.gateway.world"},
    "sim.terms": {"sim.world"},
    # Methods that are written out in a module of their own.
    "pipeline.graph": {"pipeline.copies", "pipeline.vocabulary"},
    "pipeline.schedule": {"pipeline.check", "pipeline.memory", "pipeline.versions"},
    "scenario.compare.comparison": {"scenario.compare.show"},
    "scenario.compare.rows": {"scenario.compare.comparison"},
    "scenario.outcome": {"scenario.compare.cell", "scenario.compare.uncertainty"},
    "workload.table": {"workload.check", "workload.reuse", "workload.scale", "workload.summary"},
    # One of several ways, loaded when it is taken.
    "experiment.workers": {"experiment.processes", "experiment.ray"},
    "pipeline.text": {"pipeline.csv"},
    "plan.training.plan": {"plan.training.output"},
    "scenario.run": {"scenario.story"},
}
"""The imports that close a ring of modules, those for types and those inside functions included. It may only shrink."""


def _modules(root: Path) -> dict[str, set[str]]:
    """For each module the modules that it imports, anywhere in it and for whatever reason."""
    files = {_dotted(file, root): file for file in sorted(root.rglob("*.py"))}
    return {name: set(_brought(name, file, files)) - {name} for name, file in files.items()}


def _dotted(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts)


def _brought(name: str, file: Path, files: dict[str, Path]) -> Iterator[str]:
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name.removeprefix("poise.") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").removeprefix("poise").removeprefix(".")
            if node.level:
                base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [node.module])))
            found = [f"{base}.{alias.name}".removeprefix(".") for alias in node.names]
            found = [each if each in files else base for each in found]
        else:
            continue
        yield from (each for each in found if each in files)


def _reaches(graph: dict[str, set[str]], start: str, end: str) -> bool:
    seen, left = {start}, [start]
    while left:
        fresh = graph.get(left.pop(), set()) - seen
        seen |= fresh
        left += fresh
    return end in seen


def _rings(graph: dict[str, set[str]]) -> list[str]:
    """The modules that stand in a ring."""
    return [name for name in graph if any(_reaches(graph, each, name) for each in graph[name])]


def test_modules_stand_in_no_ring_but_those_that_are_listed() -> None:
    graph = _modules(ROOT)
    without = {name: brings - RINGS.get(name, set()) for name, brings in graph.items()}
    assert not _rings(without), "modules that import one another; move what both need below them"
    idle = [
        f"{name} -> {each}"
        for name, listed in RINGS.items()
        for each in listed
        if each not in graph.get(name, set()) or not _reaches(without, each, name)
    ]
    assert not idle, f"no longer part of a ring, take them from RINGS: {idle}"


@pytest.mark.parametrize(
    "line",
    [
        "from poise.core.a import A",
        "import poise.core.a",
        "from .a import A",
        "from poise.core import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from poise.core.a import A",
        "def f():\n    from poise.core.a import A",
    ],
)
def test_a_ring_is_found_in_every_sort_of_import(tmp_path: Path, line: str) -> None:
    core = tmp_path / "poise" / "core"
    core.mkdir(parents=True)
    (core / "__init__.py").touch()
    (core / "a.py").write_text("from poise.core.b import B\n")
    (core / "b.py").write_text(f"{line}\n")
    assert _rings(_modules(tmp_path / "poise")) == ["core.a", "core.b"]


def _loaded(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `code`."""
    text = f"{code}\nimport sys, json; print(json.dumps(sorted({HEAVY!r} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_poise_loads_nothing_heavy() -> None:
    assert _loaded("import poise") == set()


def test_a_simulation_needs_only_numpy() -> None:
    code = """
import poise as ps
cluster = ps.Cluster.of("H100", count=1).replicas(1, model=ps.models.llama3_8b)
run = ps.simulate(cluster, ps.workload.poisson(1.0, requests=3))
assert run.ttft.p50 > 0
"""
    assert _loaded(code) <= {"numpy"}


def test_the_face_has_all_its_names() -> None:
    assert (
        dir(poise)
        == poise.__all__
        == [
            "Belief", "Cluster", "Control", "Engine", "Fault", "Lane", "Policies", "Pool", "Result", "Slo", "Startup",
            "Trace", "__version__", "compare", "cost", "devices", "models", "policies", "simulate",
            "workload",
        ]
    )  # fmt: skip
    for name in poise.__all__:
        assert getattr(poise, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        poise.nothing  # noqa: B018
