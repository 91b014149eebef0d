"""The demo on generated load decides, which is what it is there to show."""

from __future__ import annotations

import pytest

from poise.scenario import demo
from poise.scenario.demo import Demo


def at_one_load(monkeypatch: pytest.MonkeyPatch, load: float) -> Demo:
    """The demo, at one load and of two routers."""
    monkeypatch.setattr(demo, "SHARES", (load,))
    monkeypatch.setattr(demo, "ROUTERS", ("round_robin", "prefix_cache"))
    monkeypatch.setattr(demo, "JOBS", 1)
    return demo.demo()


def test_every_seed_of_a_load_is_other_traffic_at_one_rate() -> None:
    planned = demo.demo()
    one, two = (planned.make(seed, 0.6) for seed in planned.seeds[:2])
    assert len(planned.seeds) == 5 and len(one) == len(two) == demo.REQUESTS
    assert (one.arrival != two.arrival).any() and one.rate == pytest.approx(two.rate, rel=0.1)


@pytest.mark.slow
def test_100_percent_are_better_than_two_thirds_of_3000_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    found = at_one_load(monkeypatch, 0.6).run()
    assert found.best(0.6).winner == "prefix_cache"
    assert (
        found.interval("round_robin", "slo_attainment", 0.6).high
        < 0.9
        < 0.99
        < found.interval("prefix_cache", "slo_attainment", 0.6).value
    )


@pytest.mark.slow
def test_where_all_are_met_it_says_within_how_much_they_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    found = at_one_load(monkeypatch, 0.3).run()
    assert "equal to within" in str(found.best(0.3)) and found.best(0.3).tied
    gap = found.best(0.3).differences[found.best(0.3).tied[0]]
    assert gap.half is not None and 0 < gap.half < 0.02
