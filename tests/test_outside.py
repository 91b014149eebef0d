"""Whether real engines ran is said for each outcome."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.real.install import VERSION
from tests.outside import OUTSIDE, _path, lines

ROOT = Path(__file__).resolve().parents[1]
ENGINES = f"real engines (vLLM {VERSION})"


@dataclass
class Report:
    nodeid: str
    longrepr: Any = None


def reports(count: int, why: str = "", file: str = "tests/live/real/test_answers.py") -> list[Report]:
    return [Report(f"{file}::test_{number}", ("f", 1, f"Skipped: {why}") if why else None) for number in range(count)]


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({"passed": reports(9) + reports(3, file="tests/sim/test_exact.py")}, [f"{ENGINES}: 9 tests ran"]),
        ({"passed": reports(4), "failed": reports(1), "error": reports(1)}, [f"{ENGINES}: 6 tests ran"]),
        ({"skipped": reports(5, "no network")}, [f"{ENGINES}: NOT RUN (5 tests): no network"]),
        (
            {"passed": reports(2), "skipped": [*reports(3, "b"), *reports(1, "a")]},
            [f"{ENGINES}: 2 tests ran, 4 NOT RUN: a; b"],
        ),
        ({"passed": reports(2, file="tests/live/real/test_kept.py")}, []),
        ({}, []),
    ],
)
def test_a_line_says_how_many_ran_or_why_not(stats: dict[str, list[Report]], expected: list[str]) -> None:
    assert lines(stats) == expected


def test_the_files_are_there() -> None:
    assert all((ROOT / _path(file)).is_file() for files in OUTSIDE.values() for file in files)
