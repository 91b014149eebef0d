"""Which cause is named first, whose requests changed most, and what may be luck."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from poise.core.records.blame import PARTS
from poise.report.cause import TEXTS, first_cause
from poise.report.diff import BLOCKS, margin
from poise.report.split import best_split

ROWS = 400


def parts(**seconds: float) -> dict[str, float]:
    return dict.fromkeys(PARTS, 0.0) | {"prefill": 0.2, "decode": 2.0} | seconds


def test_every_part_may_be_named() -> None:
    assert set(PARTS) - {"link_wait", "transfer"} | {"link"} == set(TEXTS)


@pytest.mark.parametrize(
    ("after", "named"),
    [
        (parts(), None),
        (parts(queue=1.0), "queue"),
        (parts(queue=1.0, decode_others=2.0), "decode_others"),
        (parts(queue=5.0, miss=0.03), "miss"),  # work: a tenth of the prompts' own, however large the crowding
        (parts(queue=5.0, miss=0.01), "queue"),
        (parts(queue=5.0, link_wait=0.3, transfer=0.3), "link"),  # a tenth of the change
        (parts(queue=5.0, link_wait=0.3), "queue"),
        (parts(queue=5.0, preempted=2.0, lost=1e-6), "lost"),  # a fault that only one of the two met
        (parts(queue=-1.0, decode=1.0), "decode"),
        (parts(prefill=0.1, queue=0.02), "prefill"),
    ],
)
def test_the_first_cause(after: dict[str, float], named: str | None) -> None:
    cause = first_cause(parts(), after)
    assert (cause and cause.name) == named
    back = first_cause(after, parts())
    assert cause is None or (back is not None and back.name == named and back.change == -cause.change)


def pairs(change: np.ndarray[tuple[int], np.dtype[np.float64]], **columns: object) -> pl.DataFrame:
    """Requests of 1 s each in A, and `change` more in B."""
    rows = len(change)
    plain = {
        "prompt_tokens": np.full(rows, 100), "arrival_s": np.arange(rows, dtype=float), "replica": np.zeros(rows, "i4"),
        "replica_b": np.zeros(rows, "i4"), "decode_replica": np.zeros(rows, "i4"),
        "decode_replica_b": np.zeros(rows, "i4"), "cached_tokens": np.zeros(rows, "i4"),
        "cached_tokens_b": np.zeros(rows, "i4"), "e2e_s": np.ones(rows), "e2e_s_b": 1 + change,
    }  # fmt: skip
    return pl.DataFrame(plain | columns)


@pytest.mark.parametrize(
    ("by", "column", "group"),
    [
        ("tenant", "tenant", "tenant 3"),
        ("replica in B", "replica_b", "replica 3"),
        ("prefix cache", "cached_tokens", "hit in A, missed in B"),
        ("prompt length", "prompt_tokens", "4 tokens"),
    ],
)
def test_those_who_changed_are_found(by: str, column: str, group: str) -> None:
    """One in four changes by a second; what they have in common is the one thing that tells them apart."""
    kinds = np.random.default_rng(1).integers(0, 4, ROWS)
    values = {"cached_tokens": (kinds == 3) * 50, "prompt_tokens": kinds + 1}.get(column, kinds)
    first, *_ = best_split(pairs((kinds == 3) * 1.0, **{column: values}))
    assert first.by == by
    assert first.explains == pytest.approx(1.0)
    assert first.groups[0].name == group
    assert first.groups[0].change == pytest.approx(1.0) and first.groups[0].share == pytest.approx(1.0)
    assert sum(each.requests for each in first.groups) == ROWS


def test_chance_explains_nothing() -> None:
    """Groups without meaning: the corrected share of variance is 0 in the mean, where the plain one grows with k."""
    draw = np.random.default_rng(2)
    shares = [
        next(
            s for s in best_split(pairs(draw.normal(size=ROWS), tenant=draw.integers(0, 50, ROWS))) if s.by == "tenant"
        )
        for _ in range(40)
    ]
    assert abs(np.mean([each.explains for each in shares])) < 0.02


def test_the_margin_holds_the_truth_as_often_as_it_says() -> None:
    """Independent changes of mean 0, a third of them none: outside in about one of twenty."""
    draw = np.random.default_rng(3)
    outside = 0
    for _ in range(400):
        changes = draw.normal(size=ROWS) * (draw.random(ROWS) < 2 / 3)
        outside += abs(changes.mean()) > margin(changes)
    assert 8 <= outside <= 36  # 20 are expected; four standard deviations of the binomial


def test_what_did_not_change_is_certain() -> None:
    assert margin(np.zeros(ROWS)) == 0
    few = np.zeros(ROWS)
    few[: BLOCKS - 1] = 1.0
    assert margin(few) == 0
    few[:BLOCKS] = 1.0
    assert margin(few) == 0  # all by the same
    few[: BLOCKS // 2] = 3.0
    assert 0 < margin(few) < few.mean()
