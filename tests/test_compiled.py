"""`make compile` changes nothing but the speed; and compiled code never stands in for sources that have changed."""

from __future__ import annotations

import json
import os
import pickle
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.sim.cases import Case, cases
from tests.sim.plain import plain_cases

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "compile.py"

WORLDS = 1000

pytestmark = pytest.mark.slow


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python, where `poise` is the one in `folder`."""
    environment |= {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment}, cwd=folder, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a compiled copy of the package."""
    lacking = runpy.run_path(str(TOOL))["lacking"]()
    if lacking:
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("compiled")
    done = run(ROOT, str(TOOL), "--into", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def interpreted(tmp_path: Path) -> Path:
    """A folder with a copy of the package as it is written."""
    shutil.copytree(ROOT / "poise", tmp_path / "poise", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    return tmp_path


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of random worlds."""
    drawn: list[Case] = []

    @given(st.one_of(cases(), plain_cases()))
    @settings(max_examples=WORLDS, database=None, phases=[Phase.generate])
    def draw(case: Case) -> None:
        drawn.append(case)

    draw()
    file = tmp_path_factory.mktemp("worlds") / "worlds.pickle"
    file.write_bytes(pickle.dumps(drawn))
    return file


def test_all_that_comes_of_a_world_is_the_same(compiled: Path, interpreted: Path, worlds: Path) -> None:
    told: list[dict[str, Any]] = []
    for folder in (interpreted, compiled):
        done = run(folder, "-m", "tests.compiled", str(worlds))
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert [each.pop("core") for each in told] == ["interpreted", "compiled"]
    assert told[0] == told[1]
    assert len(set(told[0]["worlds"])) > WORLDS and told[0]["cloned"]
    assert told[0]["refused"] == "Nonsense answered 0; it must be a Route, a Hold or a Reject"


def test_compiled_code_needs_nothing_of_the_compiler(compiled: Path) -> None:
    code = "import sys; sys.modules['mypy_extensions'] = None; import poise.core.control.control, poise.cost.step"
    done = run(compiled, "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_stale_object_is_refused(compiled: Path, tmp_path: Path) -> None:
    shutil.copytree(compiled / "poise", tmp_path / "poise")
    assert run(tmp_path, "-c", "import poise.core").returncode == 0
    source = tmp_path / "poise" / "core" / "engine" / "lane.py"
    source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    refused = run(tmp_path, "-c", "import poise.core")
    assert refused.returncode == 1
    assert f"{source} is not what was compiled: `make compile` again, or `make uncompile`" in refused.stderr
    told = run(tmp_path, "-m", "poise", "--version")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("poise: ") and "is not what was compiled" in told.stderr
    assert told.stderr.count("\n") == 1


def test_without_a_compiler_the_cure_is_named(tmp_path: Path) -> None:
    done = run(ROOT, str(TOOL), "--into", str(tmp_path), CC="no-such-compiler")
    assert done.returncode == 2
    assert "no C compiler 'no-such-compiler'; install one" in done.stderr
    assert not any(tmp_path.iterdir())
