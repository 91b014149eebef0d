"""Which tests stay together on one worker of pytest-xdist.

Those of a file share its fixtures, and some folders share processes that only one worker should start. The scheduler is
our own, as the groups of pytest-xdist 3.8 are lost on pytest 9.2, which no longer lets it rename a test.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = {
    "tests/live/real/": "two vLLM engines",
    "tests/live/vllm/test_scheduler.py": "two vLLM engines",
    "tests/live/integrations/test_ray.py": "Ray",
    "tests/plan/test_ray.py": "Ray",
    "tests/workload/test_matrix_ray.py": "Ray",
    "tests/runtime/": "a pool of ranks",
}
"""Files and folders by what they share."""

APART: Final = ("tests/sim/test_exact.py", "tests/sim/test_batchers.py", "tests/plan/test_search.py")
"""Files of long tests that share nothing."""

LONG: Final = ("tests/validation/test_landed.py", "tests/test_compiled.py")
"""Scopes of few tests that take minutes: begun last, they would keep one worker busy while the others are done."""


def scope(nodeid: str) -> str:
    """Tests of one scope run on one worker."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    return next((shared for place, shared in TOGETHER.items() if file.startswith(place)), file)


class ByFile(LoadScopeScheduling):
    """Hands out scopes: the long ones as soon as a worker is free, then those of most tests first."""

    def schedule(self) -> None:
        super().schedule()
        for long in LONG:
            if long in self.workqueue:
                self.workqueue.move_to_end(long, last=False)

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)
