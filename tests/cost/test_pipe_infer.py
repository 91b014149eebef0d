"""Pipelined speculation: the closed form against what is drawn, and its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.pipe_infer import Stream

STREAM = Stream(stages=8, stage_s=0.02, acceptance=0.7, hop_s=0.001, draft_s=0.01, grows=0.2)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 16), st.floats(0, 0.9), st.floats(0, 0.02), st.floats(0, 0.05), st.floats(0, 1), st.integers(1, 4)
)
def test_the_closed_form_is_what_is_drawn(
    stages: int, a: float, hop: float, draft: float, grows: float, run: int
) -> None:
    stream = Stream(stages, 0.02, a, hop, draft, grows)
    assert stream.played(40_000, run) == pytest.approx(stream.pipelined(run), rel=0.05)


def test_nothing_kept_is_no_slower_than_plain() -> None:
    never = replace(STREAM, acceptance=0.0)
    assert never.pipelined() == pytest.approx(never.plain())
    assert never.best_speculative() < never.plain()


def test_everything_kept_is_a_run_each_interval() -> None:
    always = replace(STREAM, acceptance=1 - 1e-9)
    assert always.pipelined(1) == pytest.approx(1 / 0.021, rel=1e-3)
    assert always.pipelined(4) == pytest.approx(4 / max(0.02 * 1.6 + 0.001, 0.04), rel=1e-3)


def test_speculation_by_hand() -> None:
    """Two proposals at a = 0.5: 1.75 tokens in two drafts and a run of three through two stages of 1.5 s."""
    stream = Stream(2, 1.0, 0.5, draft_s=0.25, grows=0.25)
    assert stream.speculative(2) == pytest.approx(1.75 / (0.5 + 3.0))
    assert stream.best_speculative() >= stream.speculative(2)


@given(st.floats(0, 0.95), st.floats(0, 0.1))
def test_more_acceptance_and_quicker_links_are_no_slower(a: float, hop: float) -> None:
    one = replace(STREAM, acceptance=a, hop_s=hop)
    assert replace(one, acceptance=a + 0.04).pipelined() >= one.pipelined() * (1 - 1e-9)
    assert replace(one, hop_s=hop / 2).pipelined() >= one.pipelined() * (1 - 1e-9)


@pytest.mark.parametrize("given_", [{"stages": 0}, {"stage_s": 0.0}, {"acceptance": 1.0}, {"hop_s": -1.0}])
def test_what_cannot_be(given_: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"correct|give"):
        replace(STREAM, **given_)  # type: ignore[arg-type]
