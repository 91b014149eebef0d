"""How an optional part of Poise is installed from where its user stands."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from os.path import relpath
from pathlib import Path


def install(extra: str) -> str:
    """The command that installs an extra, as `live`, for the interpreter that runs, from a wheel or from a clone."""
    try:
        distribution("poise")
        target = f'"poise[{extra}]"'
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        target = f'-e "{Path(__file__).parents[2]}[{extra}]"'
    python = Path(sys.executable)
    near = python.is_relative_to(Path.cwd())
    return f"{relpath(python) if near else python} -m pip install {target}"
