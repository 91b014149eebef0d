"""One's own measurements move the middle and shrink the spread as a random effect of the deployment does."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest

from poise.core.errors import UserError
from poise.intervals.calibration import Calibration
from poise.intervals.conditions import Conditions
from poise.intervals.interval import LEVELS, Interval
from poise.intervals.own import ALIKE, Found, Own, deployment, load_own, moved, narrowed, save_own, stays

OF = Conditions("tpot", engine="vLLM 0.8", device="L4", model="m", weights="fp8")
WIDE = Interval(tuple(0.2 + level - 0.5 for level in LEVELS))
HALF = Calibration({}, {}, {}, own={"tpot": {ALIKE: 0.5}, "throughput": {ALIKE: 0.5}})


def test_the_closed_form_is_the_best_prediction_of_a_further_row() -> None:
    """Conditioning a normal distribution with equal correlations: the textbook matrix against the closed form."""
    for alike in (0.1, 0.5, 0.9):
        for rows in (1, 3, 10):
            known = np.full((rows, rows), alike) + (1 - alike) * np.eye(rows)
            weights = np.linalg.solve(known, np.full(rows, alike))
            assert sum(weights) == pytest.approx(moved(alike, rows))
            assert sqrt(1 - alike * sum(weights)) == pytest.approx(stays(alike, rows))


def test_more_rows_never_widen_and_none_change_nothing() -> None:
    for alike in (0.0, 0.3, 0.95):
        parts = [stays(alike, rows) for rows in range(12)]
        assert parts[0] == 1.0 and parts == sorted(parts, reverse=True)
        assert all(part**2 >= 1 - alike for part in parts)
    assert narrowed(WIDE, OF, Own(), HALF).logs == pytest.approx(WIDE.logs)


def test_the_middle_moves_towards_what_was_measured_and_the_width_shrinks() -> None:
    own = Own((Found(deployment(OF), 1, log(1.5)),), "own.json")
    found = narrowed(WIDE, OF, own, HALF)
    assert found.factor(0.5) == pytest.approx(WIDE.factor(0.5) * exp(0.5 * log(1.5)))
    assert log(found.width) == pytest.approx(log(WIDE.width) * stays(0.5, 1))


def test_a_slower_deployment_has_less_throughput() -> None:
    of = replace(OF, figure="throughput")
    own = Own((Found(deployment(of), 1, log(1.5)),))
    assert narrowed(WIDE, of, own, HALF).factor(0.5) == pytest.approx(WIDE.factor(0.5) / exp(0.5 * log(1.5)))


@pytest.mark.parametrize("change", [{"device": "H100"}, {"model": "n"}, {"weights": "bf16"}, {"disagg": True}])
def test_other_deployments_are_not_narrowed(change: dict[str, object]) -> None:
    own = Own((Found(deployment(OF), 9, 1.0),))
    assert narrowed(WIDE, replace(OF, **change), own, HALF).logs == pytest.approx(WIDE.logs)  # type: ignore[arg-type]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    own = Own((Found(deployment(OF), 3, -0.25), Found(deployment(replace(OF, disagg=True)), 1, 0.5)))
    save_own(own, tmp_path / "own.json")
    assert load_own(tmp_path / "own.json") == replace(own, file=str(tmp_path / "own.json"))


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}', '{"schema": 1, "own": [{"rows": 1}]}'])
def test_other_files_are_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(UserError, match=r"own.json: .*poise calibrate --points"):
        load_own(tmp_path / "own.json")
