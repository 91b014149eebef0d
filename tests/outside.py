"""What the long tests need from outside, and whether they had it: said in the last lines of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.live.real import llama_cpp
from tests.live.real.install import VERSION

OUTSIDE: Final = {
    f"real engines (vLLM {VERSION})": ("answers", "faults", "identity", "prefix", "whatif"),
    f"real engines (llama.cpp of {llama_cpp.PACKAGE})": ("llama_cpp",),
    "policies inside vLLM": ("tests/live/vllm/test_scheduler.py",),
    "Ray Serve": ("tests/live/integrations/test_ray.py",),
    "Envoy": ("tests/live/integrations/test_envoy.py",),
    "Chromium": ("tests/live/admin/test_browser.py", "tests/ui/test_browser.py"),
    "Prometheus": ("tests/test_prometheus.py",),
    "Helm": ("tests/test_chart.py",),
    "Hugging Face transformers": ("tests/runtime/models/test_hugging_face.py",),
    "trainers' own code": ("tests/plan/training/exports/real/test_real.py",),
    "compiled core": ("tests/test_compiled.py",),
}
"""The files of tests by what they need; single words are files of `tests/live/real`."""


def lines(stats: Mapping[str, Iterable[Any]]) -> list[str]:
    """One line for each thing that a test of this run needs: how many ran, or why they did not."""
    return [line for name, files in OUTSIDE.items() if (line := _line(name, [*map(_path, files)], stats))]


def _path(file: str) -> str:
    return file if "/" in file else f"tests/live/real/test_{file}.py"


def _line(name: str, files: list[str], stats: Mapping[str, Iterable[Any]]) -> str:
    def of(*kinds: str) -> list[Any]:
        return [each for kind in kinds for each in stats.get(kind, ()) if each.nodeid.split("::")[0] in files]

    ran, skipped = len(of("passed", "failed", "error")), of("skipped")
    if not skipped:
        return f"{name}: {ran} tests ran" if ran else ""
    reasons = {" ".join(str(each.longrepr[2]).removeprefix("Skipped: ").split()) for each in skipped}
    why = "; ".join(sorted(reasons))
    some = f"{ran} tests ran, {len(skipped)} NOT RUN" if ran else f"NOT RUN ({len(skipped)} tests)"
    return f"{name}: {some}: {why}"
