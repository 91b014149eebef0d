"""SGLang's Python package beside the environment of vLLM for CPUs, which has torch and most of what else it imports."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.cached import PATIENCE, Unavailable, cache, once, pip

VERSION: Final = "0.5.23"

BESIDE: Final = ("orjson==3.13.0", "pybase64==1.5.1", "setproctitle==1.3.8")
"""What the scheduler imports and that environment lacks; the rest is empty (`hollow`)."""

LIMIT_S: Final = 300.0


def package() -> Path:
    """A folder for PYTHONPATH with SGLang; Unavailable where it cannot be had."""
    return once(cache() / f"sglang-{VERSION}", "sglang", _install, LIMIT_S) / "lib"


def _install(place: Path, until: float) -> None:
    shutil.rmtree(place / "lib", ignore_errors=True)  # pip adds to what an interrupted run left
    # Without what it depends on: kernels for GPUs, several GB, none of which its scheduler runs.
    wanted: list[str | Path] = [
        "install",
        "--quiet",
        "--no-deps",
        *PATIENCE,
        "--target",
        place / "lib",
        f"sglang=={VERSION}",
        *BESIDE,
    ]
    problem = pip(wanted, until)
    if problem:
        raise Unavailable(f"sglang {VERSION} cannot be installed: {problem}")
