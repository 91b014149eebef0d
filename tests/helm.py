"""Helm 4 by its own Go library, which the package helm-python-sdk has: this file is also the program that calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PACKAGE: Final = "helm-python-sdk==0.2.2"
CHART: Final = Path(__file__).parents[1] / "deploy/chart/poise"
RELEASE, NAMESPACE = "gate", "serving"


def run(values: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, str] | str]]:
    """Errors and warnings of `helm lint`, and for each values the rendered text of each template or Helm's error.

    Raises Unavailable where Helm cannot be had.
    """
    from tests import cached  # the program runs without the package `tests`

    library = cached.library(PACKAGE)
    done = subprocess.run(
        [sys.executable, "-I", __file__, str(library), str(CHART)],
        input=json.dumps(values), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found, rendered = json.loads(done.stdout)
    return found, rendered


def main(library: str, chart: str) -> None:
    """Values on standard input, the answer of `run` on standard output."""
    sys.path.insert(0, library)
    import helm_python  # type: ignore[import-not-found,unused-ignore]

    messages = helm_python.lint(chart)["messages"]
    found = [each["error"] for each in messages if each["severity"] > 1]  # 1: information
    rendered: list[Any] = []
    with helm_python.Chart.load(chart) as loaded:
        for values in json.load(sys.stdin):
            try:
                rendered.append(loaded.render(values, name=RELEASE, namespace=NAMESPACE))
            except helm_python.HelmError as error:
                rendered.append(str(error))
    json.dump([found, rendered], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
