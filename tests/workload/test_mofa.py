"""Campaigns: pools as the code divides them, conservation, bounds by flow, and the order that keeps results fresh."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.workload.mofa import BATCH, SECONDS, campaign, workers


def test_workers_are_those_of_the_code() -> None:
    """450 nodes: 1,800 workers, a tenth generates, a quarter of the others runs DFT, one assembles for 256 of MD."""
    assert workers(450, 0.1, 0.25) == {"generation": 180, "dft": 405, "md": 1215, "assembly": 4}
    assert sum(workers(1, 0.1, 0.25).values()) == 5


@given(
    st.integers(1, 20),
    st.floats(0.1, 0.4),
    st.floats(0.0, 1.0),
    st.sampled_from(["newest", "oldest"]),
    st.integers(0, 9),
)
@settings(max_examples=30, deadline=None)
def test_no_pool_does_more_than_its_time(nodes: int, dft: float, stable: float, order: str, seed: int) -> None:
    made = campaign(nodes, 1.0, order, dft=dft, stable=stable, spread=0.0, seed=seed)  # type: ignore[arg-type]
    for done, pool in ((made.screened, "md"), (made.finished, "dft"), (made.generated // BATCH, "generation")):
        assert done <= made.workers[pool] * (3600 // SECONDS[pool])
    assert made.finished <= made.screened <= len(made.late) <= made.screened + made.workers["md"]
    assert made.dropped <= made.generated and min(made.late, default=0) >= 0


def test_one_order_is_fresher_and_no_slower() -> None:
    new, old = (campaign(16, 3.0, order) for order in ("newest", "oldest"))  # type: ignore[arg-type]
    assert new.screened == old.screened and new.finished == old.finished
    assert 0 < new.lag() < old.lag()


def test_output_is_what_the_scarcer_stage_lets_through() -> None:
    """Without spread, all MD workers busy: 12 runs an hour each, of which a tenth goes on where DFT has room."""
    made = campaign(32, 6.0, spread=0.0)
    assert made.screening() == pytest.approx(12 * made.workers["md"], rel=0.05)
    assert made.rate() < 3600 / SECONDS["dft"] * made.workers["dft"] + 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="order is 'random'; give newest or oldest"):
        campaign(order="random")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="1 and 3 of 4 workers leave none for MD"):
        workers(1, 0.1, 0.9)
