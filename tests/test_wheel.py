"""Two wheels: Poise without `poise.validation`, and `poise-validation`, which has that alone."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
VALIDATION = "poise/validation/"


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _build(folder: Path, out: Path, target: str = "wheel", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)


def _files(folder: Path, out: Path) -> set[str]:
    """The files below `poise/` in the pure wheel that is built from `folder`."""
    _build(folder, out, POISE_COMPILE="0").check_returncode()
    [wheel] = out.glob("*.whl")
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("poise/")}


def _sources() -> set[str]:
    """Modules and data of the clone."""
    kinds = {".py", ".json", ".csv", ".html", ".css", ".js"}
    found = (path for path in (ROOT / "poise").rglob("*") if path.suffix in kinds)
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_both_distributions_have_one_version() -> None:
    base, second = _project(ROOT), _project(ROOT / "validation")
    assert second["version"] == base["version"]
    assert second["dependencies"] == [f"poise=={base['version']}"]
    assert base["optional-dependencies"]["validate"] == [f"{second['name']}=={base['version']}"]


@pytest.mark.slow
def test_each_source_is_in_one_wheel(tmp_path: Path) -> None:
    base, second = _files(ROOT, tmp_path / "base"), _files(ROOT / "validation", tmp_path / "second")
    assert not base & second
    assert not [name for name in base if name.startswith(VALIDATION)]
    assert all(name.startswith(VALIDATION) for name in second)
    assert not [name for name in base | second if "__pycache__" in name]
    assert _sources() <= base | second


def test_without_its_wheel_validate_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['poise.validation'] = None\n"
        f"from poise.cli import main; sys.exit(main(['validate', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("poise: validate: poise-validation is not installed; ")
    assert done.stderr.endswith(f'-m pip install "{ROOT / "validation"}"\n')


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure_and_says_so(tmp_path: Path) -> None:
    done = _build(ROOT, tmp_path, POISE_COMPILE="auto", CC="no-such-compiler")
    assert done.returncode == 0, done.stderr
    assert [file.name.endswith("-py3-none-any.whl") for file in tmp_path.iterdir()] == [True]
    (printed,) = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("poise: ")]
    assert printed.startswith(
        "poise: pure Python, not compiled: there is no C compiler 'no-such-compiler'; install one"
    )


@pytest.mark.slow
def test_who_asks_for_a_compiled_wheel_gets_no_other(tmp_path: Path) -> None:
    done = _build(ROOT, tmp_path, POISE_COMPILE="1", CC="no-such-compiler")
    assert done.returncode != 0 and "POISE_COMPILE=1: there is no C compiler 'no-such-compiler'" in done.stderr
    done = _build(ROOT, tmp_path, POISE_COMPILE="yes")
    assert done.returncode != 0 and "POISE_COMPILE=yes: must be one of auto, 0, 1" in done.stderr
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.slow
def test_the_sdist_holds_what_its_wheels_are_built_from(tmp_path: Path) -> None:
    _build(ROOT, tmp_path, "sdist").check_returncode()
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    parts = ("poise/", "validation/", "tools/", "tests/", "docs/", "examples/", "bench/")
    assert {name for name in listed.stdout.splitlines() if name.startswith(parts)} <= held
    assert {"hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "requirements.txt", "Makefile"} <= held
    assert not [name for name in held if name.endswith((".so", ".pyd", ".pyc")) or name.startswith((".venv", "dist"))]


def test_what_compiling_needs_is_what_the_tests_have() -> None:
    pinned = (ROOT / "requirements-test.txt").read_text(encoding="utf-8").split()
    assert set(runpy.run_path(str(ROOT / "tools" / "compile.py"))["BUILD"]) <= set(pinned)


def test_every_python_that_is_claimed_is_built_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    claimed = {
        minor for each in project["project"]["classifiers"] for minor in re.findall(r"Python :: 3\.(\d+)$", each)
    }
    assert claimed == {str(minor) for minor in runpy.run_path(str(ROOT / "tools" / "wheels.py"))["MINORS"]}
    assert claimed == set(re.findall(r"cp3(\d+)-", project["tool"]["cibuildwheel"]["build"]))
