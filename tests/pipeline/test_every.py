"""What holds for every schedule, whatever its name, size and times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Kind, check, make, names, time
from poise.pipeline.communicate import communicate
from poise.pipeline.csv import parse_csv, write_csv
from poise.pipeline.find import takes
from poise.pipeline.text import parse_json, read_text, write_json, write_text

SEARCHED = ("poise", "v_auto", "zb_exact")
"""Those that search: a few cases say as much here."""


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int, Costs]:
    """Ranks, microbatches, chunks and unequal times."""
    p, m, v = draw(st.integers(1, 6)), draw(st.integers(1, 14)), draw(st.integers(1, 4))
    each = st.lists(st.integers(1, 9), min_size=p, max_size=p)
    costs = Costs.of(
        draw(each), draw(each), draw(each), draw(st.integers(0, 3)), offload=draw(each), reload=draw(each),
        s=draw(st.integers(0, 2)), t=draw(st.integers(0, 2)), barrier=draw(st.integers(0, 2)),
        rank=draw(st.sampled_from([[1], [1] * (p - 1) + [2]])),
    )  # fmt: skip
    return p, m, v, costs


@pytest.mark.parametrize("name", names())
def test_every_schedule_keeps_its_promises(name: str) -> None:
    @settings(max_examples=3 if name in SEARCHED else 8, deadline=None, derandomize=True)
    @given(sizes())
    def holds(size: tuple[int, int, int, Costs]) -> None:
        p, m, v, costs = size
        more: dict[str, Any] = {"chunks": v} if "chunks" in takes(name) else {}
        try:
            schedule = make(name, p, m, costs=costs, **more)
        except ScheduleError as error:
            assert str(error).startswith((name.removesuffix("_h"), "group")), "a refusal names the schedule"
            return
        proof, timing = check(schedule), time(schedule, costs)
        assert list(proof.peak_memory) == timing.memory.peaks
        assert timing.makespan >= max(timing.busy) and min(timing.starts) == 0
        assert (len(schedule.ranks), schedule.microbatches) == (p, m)
        full = communicate(schedule)
        assert check(full) == proof and full.compute() == schedule
        for one in (schedule, full):
            assert write_json(parse_json(write_json(one))) == write_json(one)
            assert write_text(read_text(write_text(one), one.name)) == write_text(one)

    holds()


@pytest.mark.parametrize("name", names())
def test_pytorchs_file_has_what_pytorch_can_run(name: str) -> None:
    schedule = make(name, 4, 8)
    kinds = {op.kind for row in schedule.ranks for op in row}
    runs = kinds <= {Kind.F, Kind.I, Kind.W, Kind.B} and schedule.updates == "flush"
    if runs and schedule.paths is None and all(len(homes) == 1 for homes in schedule.homes):
        assert str(parse_csv(write_csv(schedule))) == str(schedule)
    else:
        with pytest.raises(ScheduleError, match="keep the text"):
            write_csv(schedule)


def test_stages_and_microbatches_are_enough() -> None:
    for name in names():
        assert check(make(name, 4, 8)).operations > 0
