"""The compiled wheel changes nothing but the speed; and compiled code never stands in for sources that have changed."""

from __future__ import annotations

import json
import os
import pickle
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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


def build(out: Path, wish: str) -> Path:
    """The wheel that is built with this POISE_COMPILE."""
    done = run(ROOT, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out), POISE_COMPILE=wish)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled wheel of this Python."""
    lacking = runpy.run_path(str(TOOL))["lacking"]()
    if lacking:
        pytest.skip(lacking)
    return build(tmp_path_factory.mktemp("wheel"), "1")


@pytest.fixture(scope="module")
def compiled(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is in the compiled wheel."""
    folder = tmp_path_factory.mktemp("compiled")
    ZipFile(wheel).extractall(folder)
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
    seen: list[dict[str, Any]] = []
    for folder in (interpreted, compiled):
        done = run(folder, "-m", "tests.compiled", str(worlds))
        assert done.returncode == 0, done.stderr
        seen.append(json.loads(done.stdout))
    assert [each.pop("core") for each in seen] == ["interpreted", "compiled"]
    assert seen[0] == seen[1]
    assert len(set(seen[0]["worlds"])) > WORLDS and seen[0]["cloned"]
    assert seen[0]["refused"] == "Nonsense answered 0; it must be a Route, a Hold or a Reject"


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
    assert f"{source} is not what was compiled: install Poise again" in refused.stderr
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "compile.py").touch()
    refused = run(tmp_path, "-c", "import poise.core")
    assert f"{source} is not what was compiled: `make compile` again, or `make uncompile`" in refused.stderr
    found = run(tmp_path, "-m", "poise", "--version")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("poise: ") and "is not what was compiled" in found.stderr
    assert found.stderr.count("\n") == 1


def test_without_a_compiler_the_cure_is_named(tmp_path: Path) -> None:
    done = run(ROOT, str(TOOL), "--into", str(tmp_path), CC="no-such-compiler")
    assert done.returncode == 2
    assert "no C compiler 'no-such-compiler'; install one" in done.stderr
    assert not any(tmp_path.iterdir())


def test_the_wheel_is_the_pure_one_and_objects_for_this_platform(wheel: Path, tmp_path: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    version = f"cp3{sys.version_info.minor}"
    assert wheel.name.endswith(f"-{version}-{version}-{platform}.whl")
    pure = build(tmp_path, "0")
    assert pure.name.endswith("-py3-none-any.whl")
    ours, theirs = ZipFile(wheel), ZipFile(pure)
    objects = {name for name in ours.namelist() if name.endswith((".so", ".pyd"))}
    assert objects and set(ours.namelist()) - objects == set(theirs.namelist())
    other = [name for name in theirs.namelist() if ours.read(name) != theirs.read(name)]
    assert [name.rpartition("/")[2] for name in other] == ["WHEEL", "RECORD"]


def test_installed_in_a_fresh_environment_it_gives_what_pure_python_gives(wheel: Path, tmp_path: Path) -> None:
    """`make test-wheels` does this with dependencies from the registry; here they are those of the tests."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    python = tmp_path / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    command = [str(python), str(ROOT / "tools" / "try_wheel.py"), "--core", "compiled"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" bytes: compiled and pure Python are equal\n")
