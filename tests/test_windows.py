"""Poise on Windows, as far as Linux can show it: what Windows lacks is hidden from Poise (`windows/sitecustomize.py`).

All but the commands that fork or serve run, and those refuse in one line.
"""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recordings.days import a_day

ROOT = Path(__file__).resolve().parent.parent
MASK = Path(__file__).resolve().parent / "windows"
NEEDS = "needs Linux or macOS; simulate, compare and plan run here"

TRY = runpy.run_path(str(ROOT / "tools" / "try_wheel.py"))


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Python as Poise sees it on Windows, with a pipe in the code page of Western Europe."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(MASK), str(ROOT))),
        "PYTHONIOENCODING": "cp1252",
        "PYTHONWARNDEFAULTENCODING": "1",
    }
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True)


def _poise(folder: Path, command: str) -> str:
    """What a command prints, which succeeds."""
    done = _python(folder, "-m", "poise", *command.split())
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scenario.yaml").write_text(TRY["SCENARIO"], encoding="utf-8")
    single = TRY["SCENARIO"].replace("[least_requests, prefix_cache]", "prefix_cache")
    (tmp_path / "one.yaml").write_text(single, encoding="utf-8")
    rows = "".join(f"{at / 10},{300 + at},{20 + at % 90}\n" for at in range(100))
    (tmp_path / "trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}", encoding="utf-8")
    return tmp_path


def test_the_mask_hides_what_windows_lacks_from_poise_alone(tmp_path: Path) -> None:
    code = """
import os, signal, sys
assert sys.platform != "win32" and os.name == "posix" and os.fork and signal.SIGHUP
import fcntl
inside = {"__package__": "poise.x"}
exec('''
import os, signal, sys
from importlib.util import find_spec
assert sys.platform == "win32" and os.name == "nt" and find_spec("uvloop") is None
for module, name in ((os, "fork"), (os, "wait4"), (os, "sched_getaffinity"), (signal, "SIGHUP")):
    assert not hasattr(module, name), name
for name in ("fcntl", "resource", "uvloop"):
    try:
        __import__(name, globals())
    except ModuleNotFoundError:
        continue
    raise AssertionError(name)
try:
    open(os.devnull)
except EncodingWarning:
    hidden = True
''', inside | {"__name__": "poise.x"})
"""
    done = _python(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr.decode()


def test_a_scenario_runs_and_its_files_appear(folder: Path) -> None:
    text = _poise(folder, "simulate scenario.yaml --router prefix_cache --out out")
    assert text.startswith("prefix_cache keeps the SLO for ")
    assert {"report.html", "result.json"} <= {file.name for file in (folder / "out").iterdir()}


@pytest.mark.slow
def test_what_runs_on_windows_gives_what_it_gives_elsewhere(tmp_path: Path) -> None:
    ours, windows = tmp_path / "ours", tmp_path / "windows"
    outputs = []
    for where, path in ((ours, str(ROOT)), (windows, os.pathsep.join((str(MASK), str(ROOT))))):
        outputs.append(TRY["run_all"](where, path))
    TRY["compare"](*outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "calibrate day.jsonl --out cost.json",
        "whatif day.jsonl --router round_robin --jobs 2",
        "claim sglang_cache_aware --quick --jobs 2",
        "diff one.yaml --set cluster.pools.0.replicas=3",
        "story scenario.yaml 7 --router prefix_cache",
        "train schedule zb_h1 --ranks 4 --microbatches 8 --out schedule.json",
        "systems --json systems.json",
        "policies",
    ],
)
def test_other_commands_run_on_windows(folder: Path, command: str) -> None:
    a_day(rate=30.0, requests=150).trace.save(folder / "day.jsonl")
    assert _poise(folder, command)


@pytest.mark.parametrize(
    "command",
    ["serve --engine http://127.0.0.1:1", "engine --model llama-3.1-8b", "demo-live", "train run trace.csv", "ui"],
)
def test_what_forks_or_serves_refuses_in_one_line(folder: Path, command: str) -> None:
    before = set(folder.rglob("*"))
    done = _python(folder, "-m", "poise", *command.split())
    name = " ".join(command.split()[: 2 if command.startswith("train") else 1])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [f"poise: poise {name}: {NEEDS}"]
    assert set(folder.rglob("*")) == before


def test_an_unfinished_file_goes_and_one_that_is_being_written_stays(tmp_path: Path) -> None:
    """Windows refuses to remove a file that is open; here a file of a known name stands for such a one."""
    for name in ("lost", "open"):
        (tmp_path / f".x.json.{name}.part").touch()
    code = """
from pathlib import Path
from poise.report.files import replacing

remove = Path.unlink

def unlink(self, *rest):
    if self.name == ".x.json.open.part":
        raise PermissionError(13, "used by another process")
    remove(self, *rest)

Path.unlink = unlink
with replacing("x.json") as file:
    file.write(b"1")
print(sorted(each.name for each in Path().iterdir()))
"""
    done = _python(tmp_path, "-c", code)
    assert done.stdout.decode().strip() == "['.x.json.open.part', 'x.json']", done.stderr.decode()


POSIX = ("live/", "runtime/guard.py", "runtime/ranks.py", "scenario/serve/", "ui/")
"""What is only reached by the commands that refuse."""

GUARDED = {
    "experiment/processes.py": {"SIG_BLOCK", "SIG_SETMASK", "pthread_sigmask"},
    "experiment/workers.py": {"sched_getaffinity"},
    "report/files.py": {"fcntl"},
}
"""What has another way on Windows, by file."""


def _lacked(file: Path, modules: set[str], absent: dict[str, list[str]]) -> Iterator[str]:
    """The names in a file that Windows lacks."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from {alias.name.partition(".")[0] for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = (node.module or "").partition(".")[0]
            yield from {module} & modules
            yield from {alias.name for alias in node.names} & set(absent.get(module, ()))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from {node.attr} & set(absent.get(node.value.id, ()))


def test_only_what_refuses_uses_what_windows_lacks() -> None:
    code = "import json, sitecustomize as mask; print(json.dumps([sorted(mask.MODULES), mask.ABSENT]))"
    done = _python(ROOT, "-c", code)
    modules, absent = json.loads(done.stdout)
    found = {
        name: names
        for file in sorted((ROOT / "poise").rglob("*.py"))
        if not (name := file.relative_to(ROOT / "poise").as_posix()).startswith(POSIX)
        if (names := set(_lacked(file, set(modules), absent)))
    }
    assert found == GUARDED
