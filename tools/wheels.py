"""Build what is published into a folder, or try what was built: `make wheels` and `make test-wheels` call this.

    python tools/wheels.py             sdist, both pure wheels, and a compiled wheel for each Python found
    python tools/wheels.py --test      each wheel in a fresh environment, with its dependencies from the registry;
                                       builds them first where there are none
    python tools/wheels.py --python P  with this Python too; may be repeated

Compiled wheels are built from the sdist, so that it is known to hold what that takes. Pythons are looked for on PATH,
in pyenv's and uv's folders; those of 3.11 to 3.14 with headers count, free-threaded builds do not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MINORS = (11, 12, 13, 14)

PROBE = """
import platform, sys, sysconfig
from pathlib import Path
usable = platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
usable = usable and Path(sysconfig.get_path("include"), "Python.h").exists()
print(*sys.version_info[:2], getattr(sys, "_base_executable", sys.executable)) if usable else print()
"""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Build the wheels, or try them.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="where they are (default: dist)")
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="a Python to build for")
    parser.add_argument("--test", action="store_true", help="try the wheels that are there, or build them")
    given = parser.parse_args()
    found = pythons(given.python)
    absent = [f"3.{minor}" for minor in MINORS if minor not in found]
    if absent:
        print(f"not found: Python {', '.join(absent)}")
    (test if given.test else build)(given.out.resolve(), found)


def pythons(named: list[str]) -> dict[int, Path]:
    """One Python for each minor version, those that are `named` first."""
    found: dict[int, Path] = {}
    for candidate in candidates(named):
        try:
            probe = subprocess.run([candidate, "-c", PROBE], capture_output=True, text=True, check=False, timeout=60)
        except OSError:
            continue
        words = probe.stdout.split(maxsplit=2)
        if probe.returncode == 0 and len(words) == 3 and words[0] == "3" and int(words[1]) in MINORS:
            found.setdefault(int(words[1]), Path(words[2].strip()))
    return dict(sorted(found.items()))


def candidates(named: list[str]) -> Iterator[str]:
    """Where Pythons may be."""
    yield from named
    yield sys.executable
    home = Path.home()
    for minor in MINORS:
        for folder in os.get_exec_path():
            if Path(folder, f"python3.{minor}").exists():
                yield str(Path(folder, f"python3.{minor}"))
        for pattern in (f".pyenv/versions/3.{minor}.*/bin", f".local/share/uv/python/cpython-3.{minor}.*/bin"):
            yield from (str(each / f"python3.{minor}") for each in sorted(home.glob(pattern), reverse=True))


def build(out: Path, found: dict[int, Path]) -> None:
    """Build everything into `out`, in place of what is there from before."""
    for pattern in ("poise-*", "poise_validation-*"):
        for old in out.glob(pattern):
            old.unlink()
    hatch = [sys.executable, "-m", "hatchling", "build", "--directory", str(out), "--target"]
    sdist = made(out, [*hatch, "sdist"])
    made(out, [*hatch, "wheel"], POISE_COMPILE="0")
    made(out, [*hatch, "wheel"], cwd=ROOT / "validation")
    for python in found.values():
        with fresh(python) as own:
            made(out, [*pip(own), "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", str(out), str(sdist)],
                 POISE_COMPILE="1")  # fmt: skip


@contextmanager
def fresh(python: Path) -> Iterator[Path]:
    """The Python of an environment made for the block."""
    with tempfile.TemporaryDirectory(prefix="poise-wheel-") as folder:
        subprocess.run([str(python), "-m", "venv", folder], check=True)
        yield Path(folder, "Scripts" if os.name == "nt" else "bin", "python")


def pip(python: Path) -> list[str]:
    """The pip of an environment."""
    return [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def made(out: Path, command: list[str], cwd: Path = ROOT, **environment: str) -> Path:
    """Run a command that adds one file to `out`; prints its name, size and time, and returns it."""
    before, began = set(out.glob("*")), time.monotonic()
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    (file,) = set(out.glob("*")) - before
    print(f"{file.name}  {file.stat().st_size / 1e6:.2f} MB  {time.monotonic() - began:.0f} s", flush=True)
    return file


def test(out: Path, found: dict[int, Path]) -> None:
    """Try each compiled wheel by its Python, then the pure one, and the extras of which both wheels are made."""
    if not list(out.glob("poise-*-py3-none-any.whl")):
        build(out, found)
    (pure,) = out.glob("poise-*-py3-none-any.whl")
    for minor, python in found.items():
        for wheel in out.glob(f"poise-*-cp3{minor}-*.whl"):
            tried(python, str(wheel), "compiled", out)
    tried(next(iter(found.values())), f"{pure}[live,validate]", "interpreted", out, EXTRAS)


EXTRAS = "import poise.validation.command; from poise.scenario.serve.command import need_live; need_live('poise serve')"
"""A program that runs where the extras `live` and `validate` are installed."""


def tried(python: Path, wheel: str, core: str, out: Path, program: str = "") -> None:
    """Install a wheel into a fresh environment, its other wheel from `out`, and try it there, and `program`."""
    print(f"{Path(wheel).name} by {python}", flush=True)
    with fresh(python) as own:
        began = time.monotonic()
        subprocess.run([*pip(own), "install", "--find-links", str(out), wheel], check=True)
        print(f"installed in {time.monotonic() - began:.0f} s", flush=True)
        folder = own.parent.parent
        subprocess.run([str(own), str(ROOT / "tools" / "try_wheel.py"), "--core", core], cwd=folder, check=True)
        subprocess.run([str(own), "-c", program], cwd=folder, check=True)


if __name__ == "__main__":
    main()
