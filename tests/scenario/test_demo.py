"""The demo on generated load decides, which is what it is there to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import TraceError
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


def test_a_bad_row_is_passed_over_by_an_option_of_the_demo(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,0\n" + "1,10,5\n" * 30)
    with pytest.raises(TraceError, match=r"line 2: output_tokens is '0'.* or give --skip-bad$"):
        demo.demo(trace)
    assert demo.demo(trace, skip_bad=True).recorded


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
