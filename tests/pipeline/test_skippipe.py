"""SkipPipe: every inner stage has its share, paths are fastest, conflicts are gone, and skipping pays."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, check, make, time
from poise.pipeline.along import along
from poise.pipeline.communicate import communicate
from poise.pipeline.conflicts import Ban, Field, fastest, plan
from poise.pipeline.placement import place, slowness
from poise.pipeline.schedule import Schedule

few = settings(max_examples=40, deadline=None)
SIZES = (5, 3, 3, 3, 3, 3)


def field(draw: Random, sizes: list[int], length: int) -> Field:
    cuts = [0, *(sum(sizes[: stage + 1]) for stage in range(len(sizes)))]
    homes = [list(range(low, high)) for low, high in pairwise(cuts)]
    hops = [[0 if one == two else draw.randint(0, 9) for one in range(cuts[-1])] for two in range(cuts[-1])]
    return Field(homes, [draw.randint(1, 9) for _ in sizes], hops, length)


def ways(stages: int, length: int) -> list[tuple[int, ...]]:
    """All paths: increasing but for neighbours that may be swapped in pairs, never the first or last."""

    def fits(path: tuple[int, ...]) -> bool:
        place = 0
        while place < len(path) - 1:
            if path[place] == path[place + 1] + 1:
                path = (*path[:place], path[place + 1], path[place], *path[place + 2 :])
                place += 1
            place += 1
        return all(one < two for one, two in pairwise(path))

    inner = permutations(range(1, stages - 1), length - 2)
    return [(0, *path, stages - 1) for path in inner if fits((0, *path, stages - 1))]


@few
@given(st.integers(0, 1 << 30), st.integers(3, 6), st.data())
def test_a_path_is_the_fastest_of_all(seed: int, stages: int, data: st.DataObject) -> None:
    draw = Random(seed)
    sizes = [draw.randint(1, 2) for _ in range(stages)]
    where = field(draw, sizes, data.draw(st.integers(3, stages)))
    best = None
    for way in ways(stages, where.length):
        at = {where.homes[0][0]: where.ticks[0]}
        for stage in way[1:]:
            at = {
                there: min(ticks + where.hops[here][there] for here, ticks in at.items()) + where.ticks[stage]
                for there in where.homes[stage]
            }
        best = min(at.values()) if best is None else min(best, *at.values())
    found = fastest(where, 0, Ban(), [])
    assert found is not None and found[-1].end == best


@few
@given(st.integers(0, 1 << 30), st.integers(3, 7), st.data())
def test_a_plan_shares_the_stages_out(seed: int, stages: int, data: st.DataObject) -> None:
    where = field(Random(seed), [1] * stages, data.draw(st.integers(3, stages)))
    paths = plan(where)
    passed = Counter(visit.stage for path in paths for visit in path)
    assert passed[0] == passed[stages - 1] == len(paths)
    assert len({passed[stage] for stage in range(1, stages - 1)}) == 1
    for path in paths:
        assert len(path) == where.length
        for one, two in pairwise(path):
            assert two.start >= one.end + where.hops[one.rank][two.rank]


def test_equal_stages_leave_no_conflict() -> None:
    for stages, length in ((4, 3), (6, 4), (8, 6), (12, 9), (16, 12)):
        where = Field([[rank] for rank in range(stages)], [1] * stages, [[0] * stages] * stages, length)
        taken = Counter((visit.rank, visit.start) for path in plan(where) for visit in path)
        assert max(taken.values()) == 1


@few
@given(st.integers(1, 8), st.integers(1, 20), st.sampled_from(["0", "0.25", "0.33", "0.5"]), st.data())
def test_the_schedule_follows_its_paths(p: int, m: int, skip: str, data: st.DataObject) -> None:
    each = st.lists(st.integers(1, 5), min_size=p, max_size=p)
    costs = Costs.of(data.draw(each), data.draw(each), data.draw(each), data.draw(st.integers(0, 3)))
    schedule = make("skippipe", p, m, skip=skip, costs=costs, alive=data.draw(st.integers(1, 6)))
    assert check(communicate(schedule)) == check(schedule)
    length = max(-(-p * (1 - Fraction(skip)) // 1), min(p, 3))
    assert schedule.paths is not None and {len(path) for path in schedule.paths} == {length}


@pytest.mark.parametrize(("p", "m"), [(4, 8), (6, 48), (8, 32)])
def test_the_ends_bound_the_makespan(p: int, m: int) -> None:
    """Where every microbatch passes the first and last stage, the path alone is shorter; without skips it is 1F1B."""
    length = -(-3 * p // 4)
    assert time(make("skippipe", p, m)).makespan == 3 * (m + length - 1)
    assert time(make("skippipe", p, m, skip=0)).makespan == 3 * (m + p - 1)


def test_planned_paths_beat_random_ones_and_those_beat_full_ones() -> None:
    """20 nodes in 6 stages, the first with more of them, a third skipped, as in the paper's runs."""
    order = [0.0, 0.0, 0.0]
    for seed in range(2):
        draw = Random(seed)
        links = [[0 if a == b else draw.randint(1, 20) for a in range(20)] for b in range(20)]
        costs = Costs.of(4, 4, 4, links=links)
        planned = make("skippipe", 20, 30, skip="1/3", replicas=SIZES, costs=costs)
        whole = make("skippipe", 20, 30, skip=0, replicas=SIZES, costs=costs)
        homes = [list(range(sum(SIZES[:stage]), sum(SIZES[: stage + 1]))) for stage in range(6)]
        chosen = []
        for batch in range(30):
            stages = [0, *sorted(draw.sample(range(1, 5), 2)), 5]
            chosen.append([(0, batch % 5), *((stage, draw.choice(homes[stage])) for stage in stages[1:])])
        rows = along(chosen, costs.at(20, 6, 30), 20, 8)
        paths = tuple(tuple(stage for stage, _ in way) for way in chosen)
        loose = Schedule(tuple(map(tuple, rows)), 6, 30, paths=paths)
        for place_, schedule in enumerate((planned, loose, whole)):
            order[place_] += float(time(schedule, costs).makespan)
    assert order[0] < order[1] < order[2]


def test_placement_is_the_best_of_all_on_small_ones() -> None:
    for seed in range(3):
        draw = Random(seed)
        links = [[0.0] * 6 for _ in range(6)]
        for one in range(6):
            for two in range(one):
                links[one][two] = links[two][one] = draw.random()
        best = min(slowness(links, (2, 2, 2), order, 2) for order in permutations(range(6)))
        found = place(links, (2, 2, 2), factor=2, seed=seed, population=40, trials=600)
        assert slowness(links, (2, 2, 2), found, 2) == best


def test_placement_keeps_sites_together() -> None:
    """Two sites of three nodes: gradients stay within a site."""
    links = [[0.0 if one == two else 1.0 if one % 2 == two % 2 else 50.0 for one in range(6)] for two in range(6)]
    found = place(links, (3, 3), factor=3, population=30, trials=400)
    assert {frozenset(found[:3]), frozenset(found[3:])} == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"skip": 1}, "skip 1; give the part"),
        ({"skip": "much"}, "skip 'much'; give the part"),
        ({"replicas": (2, 1)}, "have 3 ranks of 4"),
        ({"alive": 0}, "alive 0; allow at least one"),
    ],
)
def test_what_it_cannot_take_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        make("skippipe", 4, 8, **given)
    with pytest.raises(ScheduleError, match="placement: sizes 2 2 and links of 3"):
        place([[0.0] * 3] * 3, (2, 2))
