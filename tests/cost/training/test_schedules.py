"""Closed forms of schedules beside the schedules themselves, and what a search says of those that it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.schedules import FORMS, LIMITED, LOOP, REFUSED, SCHEDULES, Filling, allowed, fill, held
from poise.pipeline import Costs, check, make, names, time
from poise.pipeline.find import takes
from poise.plan.training.space import Space

P, M = 8, 32

CHUNKS = [(name, each) for name, form in FORMS.items() for each in ((2, 4) if form.place == LOOP else (form.chunks,))]


def test_every_schedule_is_searched_or_refused_with_the_reason() -> None:
    assert sorted([*FORMS, *REFUSED]) == names()
    for name, why in REFUSED.items():
        with pytest.raises(ScenarioError, match=f"schedule '{name}' .*; take "):
            Space(schedule=(name,))
        assert why.rsplit("; take ", 1)[1].split()[0] in FORMS


@pytest.mark.parametrize("times", [(1, 1, 1), (4, 4, 2)])
@pytest.mark.parametrize(("name", "chunks"), CHUNKS)
def test_forms_are_near_the_schedule(name: str, chunks: int, times: tuple[int, int, int]) -> None:
    """Within a quarter of the makespan, and no less memory than half an activation below the peak, of 8 ranks."""
    costs = Costs.of(*times)
    more = {"chunks": chunks} if "chunks" in takes(name) else {}
    schedule = make(name, P, M, costs=costs, memory_limit=P if name in LIMITED else None, **more)
    number, p, v, m = (np.array([each]) for each in (SCHEDULES.index(name), P, chunks, M))
    total = sum(times)
    wait = fill(number, Filling(np.array([(P - 1.0) * total]), v, *(np.array([float(each)]) for each in times)))
    timing = time(schedule, costs)
    assert float(wait[0]) + M * total == pytest.approx(float(timing.makespan), rel=0.25)
    most = max(float(held(number, p, v, np.array([rank]), m)[0]) for rank in range(P))
    assert float(max(check(schedule).peak_memory)) - 0.5 <= most <= 2 * float(max(check(schedule).peak_memory))


@pytest.mark.parametrize("name", ["dualpipe", "chimera", "bitpipe"])
def test_counts_of_bidirectional_ones(name: str) -> None:
    for p in range(2, 9):
        for m in range(1, 20):
            assert allowed(name, p, m) is _made(name, p, m), (p, m)


def _made(name: str, p: int, m: int) -> bool:
    try:
        make(name, p, m)
    except ScheduleError:
        return False
    return True
