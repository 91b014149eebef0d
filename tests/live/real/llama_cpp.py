"""llama.cpp's server, built once from the sources in llama-cpp-python and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cached import PATIENCE, Unavailable, cache, once, pip, ran
from tests.live.real.model import CONTEXT
from tests.live.real.process import NAME, Process

VERSION: Final = "0.3.36"
"""Of llama-cpp-python; its source distribution has all of llama.cpp."""

PACKAGE: Final = f"llama-cpp-python=={VERSION}"

LIMIT_S: Final = 1500.0
"""Longest time for the build, or to wait for another's."""

DISK: Final = 2 << 30
"""Bytes of the sources and of what is compiled; 20 MB stay."""

OPTIONS: Final = {
    "CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS_RELEASE": "-O1", "CMAKE_C_FLAGS_RELEASE": "-O2",
    "BUILD_SHARED_LIBS": "OFF", "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_APP": "OFF",
    "LLAMA_OPENSSL": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF",
    "GGML_OPENMP": "OFF", "GGML_LLAMAFILE": "OFF",
}  # fmt: skip
"""With -O1 the build takes eight minutes of one core. -O0 saves one of them, and the tests take three times as long."""

SLOTS: Final = 4
"""Requests that a server computes at once; others are deferred."""


def built() -> Path:
    """The program `llama-server`; Unavailable where it cannot be built."""
    return once(cache() / f"llama-cpp-{VERSION}", "llama.cpp", _build, LIMIT_S) / "llama-server"


def _build(place: Path, until: float) -> None:
    missing = [name for name in ("cmake", "c++", "nice") if shutil.which(name) is None]
    if missing:
        raise Unavailable(f"llama.cpp is built with cmake and a C++ compiler; not on PATH: {', '.join(missing)}")
    free = shutil.disk_usage(place).free
    if free < DISK:
        raise Unavailable(f"llama.cpp's build needs {DISK >> 30} GiB of disk, {free / 2**30:.1f} are free at {place}")
    with tempfile.TemporaryDirectory(dir=place) as name:
        problem = _compile(Path(name), until)
        if problem:
            raise Unavailable(f"llama.cpp of {PACKAGE} cannot be built: {problem[-300:]}")
        shutil.copy2(Path(name) / "build/bin/llama-server", place / "llama-server")


def _compile(folder: Path, until: float) -> str:
    """Download and compile; errors, or nothing."""
    download: list[str | Path] = [
        "download",
        "--quiet",
        *PATIENCE,
        "--no-deps",
        "--no-binary=llama-cpp-python",
        "--dest",
        folder,
    ]
    problem = pip([*download, PACKAGE], until)
    if problem:
        return problem
    build = folder / "build"
    options = [f"-D{option}={value}" for option, value in OPTIONS.items()]
    problem = ran(["nice", "cmake", "-S", _sources(folder), "-B", build, *options], until)
    jobs = str(os.cpu_count() or 1)
    return problem or ran(["nice", "cmake", "--build", build, "--target", "llama-server", "--parallel", jobs], until)


def _sources(folder: Path) -> Path:
    """llama.cpp's sources, unpacked from the one archive there."""
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (sources,) = folder.glob("*/vendor/llama.cpp")
    return sources


@dataclass(kw_only=True)
class LlamaCpp(Process):
    """One server of a GGUF file."""

    program: Path
    model: Path

    def command(self) -> list[str | Path]:
        flags = {
            "--model": self.model, "--alias": NAME, "--host": "127.0.0.1", "--port": self.port,
            "--ctx-size": SLOTS * CONTEXT, "--parallel": SLOTS, "--threads": 1,
        }  # fmt: skip
        given = [str(each) for pair in flags.items() for each in pair]
        return [self.program, *given, "--metrics", "--slots", "--jinja"]
