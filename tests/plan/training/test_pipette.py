"""Pipette's parts: slopes of its estimator, what it learns, and its models against simulated steps."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.chance import Chance
from poise.core.errors import ScenarioError
from poise.experiment.rank_correlation import spearman
from poise.plan.training.pipette import Work, hidden_path_s, path_s, place, sync_s
from poise.plan.training.pipette_memory import FEWEST, _forward, _pairs, _slopes, learn
from poise.plan.training.pipette_tried import (
    MODELS,
    SLOWEST,
    job_of,
    layouts_of,
    links_of,
    profiled,
    ranked,
    simulated_s,
    work_of,
)


def test_slopes_are_those_of_small_differences() -> None:
    draw = np.random.default_rng(1)
    values = [draw.normal(size=(3, 5)), draw.normal(size=5), draw.normal(size=(5, 1)), draw.normal(size=1)]
    x, y = draw.normal(size=(7, 3)), draw.normal(size=7)

    def error() -> float:
        return float(np.mean((_forward(_pairs(values), x)[0][:, 0] - y) ** 2))

    for value, slope in zip(values, _slopes(values, x, y), strict=True):
        for at in np.ndindex(value.shape):
            value[at] += 1e-6
            above = error()
            value[at] -= 2e-6
            below = error()
            value[at] += 1e-6
            assert slope[at] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_peaks_that_were_profiled_are_learnt() -> None:
    rows, peaks = profiled((1, 2), MODELS[:3])
    found = learn(rows, peaks, epochs=150).bytes(rows)
    assert np.median(np.abs(found / np.asarray(peaks) - 1)) < 0.05
    assert spearman(found.tolist(), peaks) > 0.98


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ScenarioError, match=f"{FEWEST} or more"):
        learn([(1.0, 2.0)] * 5, [1.0] * 5)


def test_the_hidden_path_ranks_steps_as_simulated_ones_and_better_than_counting_messages_once() -> None:
    found = ranked(3, cases=40)
    assert found.hidden > 0.9 and found.hidden > found.naive


def test_without_messages_the_model_is_the_simulated_step() -> None:
    work, links = Work(4, 2, 12, 0.06, 0.0, 1e9), links_of(8, 0)
    order = range(8)
    sync = sync_s(work, links, order)
    assert hidden_path_s(work, 0.0, sync) == pytest.approx(simulated_s(work, links, order))


def test_a_placement_shortens_the_simulated_step() -> None:
    job, links = job_of(MODELS[4], 8), links_of(8, 5)
    layout = next(each for each in layouts_of(job) if (each.tensor, each.pipeline, each.micro_batch) == (8, 4, 1))
    work = work_of(job, layout)
    found = place(work, links, Chance(0))
    assert simulated_s(work, links, found.order) < simulated_s(work, links, range(8))
    assert path_s(work, links, found.order) < path_s(work, links, range(8))


def test_links_are_symmetric_and_within_bounds() -> None:
    links = np.asarray(links_of(6, 2))
    assert (links == links.T).all() and links.min() >= SLOWEST * links.max()
