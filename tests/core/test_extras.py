"""The command that installs an extra: for the interpreter that runs, from a wheel, a clone, or a bare checkout."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

import poise
from poise.core import extras

ROOT = Path(poise.__file__).parents[1]


def test_an_installed_package_names_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert extras.install("live") == f'{sys.executable} -m pip install "poise[live]"'


def test_an_interpreter_below_the_working_directory_is_named_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert extras.install("ray") == '.venv/bin/python -m pip install "poise[ray]"'


def test_a_checkout_that_is_not_installed_names_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "distribution", absent)
    assert extras.install("torch") == f'{sys.executable} -m pip install -e "{ROOT}[torch]"'


class Installed:
    """A distribution that pip installed from `url`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read_text(self, name: str) -> str:
        assert name == "direct_url.json"
        return json.dumps({"url": self._url, "archive_info": {}})


def _installed_from(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parents[1])
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(path.as_uri()))


def test_the_second_wheel_is_looked_for_beside_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "my dist" / "poise-1-py3-none-any.whl"
    wheel.parent.mkdir()
    _installed_from(wheel, monkeypatch)
    assert extras.install("validate") == f'{sys.executable} -m pip install "poise[validate]"'  # the file is gone
    wheel.touch()
    command = f'{sys.executable} -m pip install --find-links "{wheel.parent}" "poise[validate]"'
    assert extras.install("validate") == command
    assert extras.install("live") == f'{sys.executable} -m pip install "poise[live]"'


def test_the_second_wheel_of_a_clone_is_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    _installed_from(clone, monkeypatch)
    assert extras.install("validate") == f'{sys.executable} -m pip install "{clone / "validation"}"'


def test_without_pip_it_is_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert extras.install("live") == f'uv pip install --python {sys.executable} "poise[live]"'


def test_every_extra_that_is_named_exists() -> None:
    known = set(metadata.metadata("poise").get_all("Provides-Extra") or ())
    named = {
        part.split(quote)[0]
        for file in (ROOT / "poise").rglob("*.py")
        for quote in ("'", '"')
        for part in file.read_text(encoding="utf-8").split(f"install({quote}")[1:]
    }
    assert named and named <= known
