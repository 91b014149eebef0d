"""How an optional part of Poise is installed from where its user stands."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from os.path import relpath
from pathlib import Path


def install(extra: str) -> str:
    """The command that installs an extra, as `live`, for the interpreter that runs, from a wheel or from a clone."""
    return f"{_installer()} {_target(extra)}"


def _installer() -> str:
    """pip of this interpreter, or uv where the environment has no pip."""
    python = Path(sys.executable)
    near = python.is_relative_to(Path.cwd())
    name = relpath(python) if near else str(python)
    return f"{name} -m pip install" if find_spec("pip") else f"uv pip install --python {name}"


def _target(extra: str) -> str:
    """What to install. Poise itself is there already, so its name needs no index; the wheel of `validate` does."""
    try:
        origin = _origin()
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return f'-e "{Path(__file__).parents[2]}[{extra}]"'
    if extra == "validate" and origin is not None:
        if origin.is_dir():
            return f'"{origin / "validation"}"'
        return f'--find-links "{origin.parent}" "poise[validate]"'
    return f'"poise[{extra}]"'


def _origin() -> Path | None:
    """The folder, wheel or sdist that Poise was installed from, while it is there; None if from an index."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    recorded = distribution("poise").read_text("direct_url.json")
    url = urlsplit(json.loads(recorded)["url"] if recorded else "")
    path = Path(url2pathname(url.path))
    return path if url.scheme == "file" and path.exists() else None
