"""Two wheels: Poise without `poise.validation`, and `poise-validation`, which has that alone."""

from __future__ import annotations

import subprocess
import sys
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


def _files(folder: Path, out: Path) -> set[str]:
    """The files below `poise/` in the wheel that is built from `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
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
    assert done.stderr.endswith('-m pip install "poise[validate]"\n')
