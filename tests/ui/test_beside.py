"""Differences between runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.report.figures import ATTAINMENT, REQUESTS, TTFT
from poise.ui.beside import PLAN, beside, difference


@pytest.mark.parametrize(
    ("figure", "first", "other", "text", "verdict"),
    [
        (TTFT[1], (0.2, 0.01), (0.1, 0.01), "−100 ms (−50 %)", "better"),
        (TTFT[1], (0.1, 0.01), (0.2, 0.01), "+100 ms (+100 %)", "worse"),
        (TTFT[1], (0.1, 0.06), (0.2, 0.06), "+100 ms (+100 %), within the intervals", ""),
        (TTFT[1], (0.1, None), (0.2, 0.01), "+100 ms (+100 %)", ""),
        (ATTAINMENT, (0.5, 0.01), (0.75, 0.01), "+25 points", "better"),
        (REQUESTS, (10.0, None), (20.0, None), "+10 (+100 %)", ""),
        (REQUESTS, (0.0, None), (20.0, None), "+20", ""),
        (PLAN[1], (2.0, None), (3.0, None), "+$1 (+50 %)", "worse"),
        (TTFT[1], (0.1, 0.01), (0.1, 0.02), "the same", ""),
    ],
)
def test_a_difference_is_judged_only_beyond_the_intervals(
    figure: object, first: tuple[float, float | None], other: tuple[float, float | None], text: str, verdict: str
) -> None:
    assert difference(figure, first, other) == (text, verdict)  # type: ignore[arg-type]


def plan(folder: Path, price: float, devices: dict[str, int] | None) -> Path:
    folder.mkdir()
    best = {"fleet": "2 x L40S", "router": "least_requests", "devices": devices, "price_per_hour": price}
    found = {"plan": None if devices is None else {**best, "attainment": 0.99, "ttft_s": 0.4}}
    (folder / "plan.json").write_text(json.dumps(found))
    return folder


def test_plans_are_put_beside_each_other_and_one_without_a_fleet_has_none(tmp_path: Path) -> None:
    runs = {
        "a": plan(tmp_path / "a", 2.0, {"L40S": 2}),
        "b": plan(tmp_path / "b", 3.0, {"L40S": 1, "H100": 2}),
        "c": plan(tmp_path / "c", 0.0, None),
    }
    table = beside(runs)
    [group] = table["groups"]
    rows = {row["label"]: [(cell["text"], cell["difference"]) for cell in row["cells"]] for row in group["rows"]}
    assert rows["Devices"] == [("2", ""), ("3", "+1 (+50 %)"), ("–", "")]
    assert rows["Price per hour"] == [("$2", ""), ("$3", "+$1 (+50 %)"), ("–", "")]
    assert rows["Fleet"][2] == ("–", "")
    assert "TPOT" not in rows
