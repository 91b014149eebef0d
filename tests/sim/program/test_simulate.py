"""A Program on shared links: equal to a slow reference, to the plain walk where nothing is shared, and closed forms."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings

from poise.core.errors import ProgramError, ScheduleError
from poise.core.units import SECOND
from poise.pipeline import make
from poise.pipeline.lower import program_of
from poise.program import Builder, Content, Lane, Program, Task
from poise.program.passes import sized
from poise.program.walk import walk
from poise.sim.links import Wiring
from poise.sim.program import Clock, Simulated, simulate
from poise.sim.program.routes import routes_of
from tests.depth import examples
from tests.sim.program.reference import Reference
from tests.sim.program.worlds import World, worlds


def joint(kind: str, sizes: list[float]) -> Program:
    """One collective of all ranks, with the bytes of each."""
    group = tuple(range(len(sizes)))
    rows = {
        Lane(rank, "group"): (Task(kind, rank, "group", (), (f"y@{rank}",), size, group),)
        for rank, size in enumerate(sizes)
    }
    return Program(rows)


def instant(world: World) -> Simulated:
    return simulate(world.program, Clock.of(world.program, world.wiring, lambda task: 0.0), world.wiring)


@pytest.mark.deep
@given(worlds())
@settings(max_examples=examples(800), deadline=None)
def test_it_is_the_slow_reference(world: World) -> None:
    program, clock, wiring = world
    found = simulate(program, clock, wiring)
    slow = Reference(program.index, clock, routes_of(program.index, wiring), wiring.bytes_per_s).run()
    for number in range(len(program.index.tasks)):
        for fast, exact in ((found.starts, slow.starts), (found.ends, slow.ends), (found.ready, slow.ready)):
            assert abs(fast[number] - exact[number]) <= 100  # picoseconds, of seconds: ends of flows are rounded


@pytest.mark.deep
@given(worlds(joint=False, alone=True))
@settings(max_examples=examples(400), deadline=None)
def test_where_nothing_is_shared_it_is_the_walk(world: World) -> None:
    program, clock, wiring = world
    ticks = list(clock.ticks)
    for number, flows in routes_of(program.index, wiring).items():
        ((size, path),) = flows
        ticks[number] += round(size / (wiring.bytes_per_s[path[0]] / SECOND))
    walked = walk(program.index, ticks, clock.lags)
    found = simulate(program, clock, wiring)
    assert (found.starts, found.ends) == (walked.starts, walked.ends)


@pytest.mark.deep
@given(worlds())
@settings(max_examples=examples(400), deadline=None)
def test_every_link_carries_the_bytes_of_its_tasks_and_never_more_than_it_can(world: World) -> None:
    program, clock, wiring = world
    found = simulate(program, clock, wiring, rates=True)
    assert found.rates is not None
    assert all(one.instant <= two.instant for one, two in pairwise(found.rates))
    count = len(wiring.bytes_per_s)
    carried, rate, since = [0.0] * count, dict[int, float](), 0
    on: dict[int, tuple[int, ...]] = {}
    for each in found.rates:
        if each.instant > since:
            load = [sum(rate[flow] for flow, path in on.items() if link in path) for link in range(count)]
            for link, total in enumerate(load):
                assert total * SECOND <= wiring.bytes_per_s[link] * (1 + 1e-9)
                carried[link] += total * (each.instant - since)
            since = each.instant
        rate[each.flow], on[each.flow] = each.rate, each.path
    assert not any(rate.values())
    wanted = [0.0] * count
    for flows in routes_of(program.index, wiring).values():
        for size, path in flows:
            for link in path:
                wanted[link] += size
    assert carried == pytest.approx(wanted, abs=1e-9)


@pytest.mark.deep
@given(worlds())
@settings(max_examples=examples(400), deadline=None)
def test_order_of_lanes_and_of_causes(world: World) -> None:
    program, clock, wiring = world
    index, found = program.index, simulate(program, clock, wiring)
    for number in range(len(index.tasks)):
        assert 0 <= found.starts[number] <= found.ends[number] <= found.ready[number]
        assert all(found.ready[need] <= found.starts[number] for need in index.needs[number])
        if number > index.first[index.lane[number]]:
            assert found.ends[number - 1] <= found.starts[number]
    for members in index.members:
        assert len({found.starts[each] for each in members}) == 1


@given(worlds())
@settings(max_examples=examples(200), deadline=None)
@pytest.mark.deep
def test_the_order_in_which_lanes_are_listed_does_not_matter(world: World) -> None:
    program, clock, wiring = world
    turned = program.with_rows(dict(reversed(program.rows.items())))
    place = {id(task): number for number, task in enumerate(program.index.tasks)}
    order = [place[id(task)] for task in turned.index.tasks]
    same = Clock([clock.ticks[at] for at in order], [clock.lags[at] for at in order])
    one, two = simulate(program, clock, wiring), simulate(turned, same, wiring)
    assert [one.starts[at] for at in order] == two.starts
    assert [one.ends[at] for at in order] == two.ends


def test_two_messages_share_a_link_until_the_shorter_one_has_left() -> None:
    """Of 3 and 5 bytes at 1 byte/s both have half of it for 6 s; the 2 bytes that are left then have all of it."""
    into = Builder()
    for target, size in ((1, 3.0), (2, 5.0)):
        into.give(f"x{target}@0", Content({}))
        into.message(f"x{target}", 0, target, size)
    wiring = Wiring.nodes(3, 1, scaleup_bw=1.0, scaleout_bw=1.0, latency_s=(0.0, 0.5))
    found = instant(World(into.build(), Clock([], []), wiring))
    index = found.index
    ends = {task.group[1]: found.ends[number] / SECOND for number, task in enumerate(index.tasks) if task.reads}
    here = {task.rank: found.starts[number] / SECOND for number, task in enumerate(index.tasks) if task.writes}
    assert ends == {1: 6.0, 2: 8.0}
    assert here == {1: 6.5, 2: 8.5}


@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 8), (4, 16)])
def test_the_bubble_of_1f1b(p: int, m: int) -> None:
    """(p − 1)(F + B) without messages; each of 2(p − 1) hops to the last rank and back takes its bytes longer."""
    wiring = Wiring.nodes(p, 1, scaleup_bw=1.0, scaleout_bw=8.0)
    work = {"F": 1.0, "B": 2.0}
    for size in (0.0, 2.0):
        program = sized(program_of(make("one_f_one_b", p, m)), [size] * p)
        found = simulate(program, Clock.of(program, wiring, lambda task: work.get(task.kind, 0.0)), wiring)
        assert found.busy_s == [3.0 * m] * p
        if not size:
            assert found.bubble_s == 3.0 * (p - 1)
        else:
            assert found.makespan_s >= 3.0 * (m + p - 1) + 2 * (p - 1) * size / 8.0


@pytest.mark.parametrize(
    ("kind", "sizes", "seconds"),
    [
        ("all_reduce", [6.0, 6.0, 6.0], 3.0),  # each sends 6 bytes to the next at 2 bytes/s
        ("all_reduce", [6.0, 4.0, 2.0], 3.0),  # all wait for the last
        ("all_to_all", [6.0, 6.0, 6.0], 3.0),  # 3 to each of two others, through one port out and one in
        ("all_to_all", [6.0, 0.0, 0.0], 3.0),
        ("all_reduce", [6.0], 3.0),  # with copies outside
        ("barrier", [6.0, 6.0], 0.0),
    ],
)
def test_collectives(kind: str, sizes: list[float], seconds: float) -> None:
    wiring = Wiring.nodes(max(len(sizes), 1), 1, scaleup_bw=1.0, scaleout_bw=2.0)
    found = instant(World(joint(kind, sizes), Clock([], []), wiring))
    assert [end / SECOND for end in found.ends] == [seconds] * len(sizes)


def test_copies_take_turns_on_the_link_of_their_lane() -> None:
    into = Builder()
    for name in "ab":
        into.give(f"{name}@0", Content({}))
        into.add(Task("copy", 0, "d2h", (f"{name}@0",), (f"host.{name}@0",), 4.0))
    wiring = Wiring.nodes(1, scaleup_bw=1.0, scaleout_bw=1.0).with_copies({"d2h": 2.0})
    program = into.build()
    assert [end / SECOND for end in instant(World(program, Clock([], []), wiring)).ends] == [2.0, 4.0]
    slower = wiring.with_copies({"d2h": 1.0})
    assert instant(World(program, Clock([], []), slower)).makespan_s == 8.0
    with pytest.raises(ProgramError, match=r"no link for the lane d2h; give it with Wiring.with_copies"):
        routes_of(program.index, Wiring.nodes(1, scaleup_bw=1.0, scaleout_bw=1.0))


def test_what_cannot_be() -> None:
    wiring = Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)
    program = joint("all_reduce", [1.0, -1.0])
    with pytest.raises(ProgramError, match=r"-1 bytes; give 0 or more"):
        simulate(program, Clock([0, 0], [0, 0]), wiring)
    good = joint("all_reduce", [1.0, 1.0])
    with pytest.raises(ProgramError, match="1 ticks for 2 tasks"):
        simulate(good, Clock([0], [0, 0]), wiring)
    with pytest.raises(ProgramError, match=r"lags of all_reduce y \(rank 1, lane group, slot 0\) are -5"):
        simulate(good, Clock([0, 0], [0, -5]), wiring)
    with pytest.raises(ProgramError, match=r"clock: all_reduce y \(rank 0, lane group, slot 0\) takes nan s; give 0"):
        Clock.of(good, wiring, lambda task: float("nan"))
    with pytest.raises(ProgramError, match="2 ranks for a Program of 3; give as many"):
        simulate(joint("all_reduce", [1.0] * 3), Clock([0] * 3, [0] * 3), wiring)
    with pytest.raises(ScheduleError, match="0 bytes/s for the copies of lane d2h"):
        wiring.with_copies({"d2h": 0})


def test_a_deadlock_is_an_error() -> None:
    rows = {
        Lane(0, "compute"): (Task("a", 0, "compute", ("y@0",), ("x@0",)), Task("b", 0, "compute", (), ("y@0",))),
    }
    with pytest.raises(ProgramError, match=r"a x \(rank 0, lane compute, slot 0\) can never start"):
        simulate(Program(rows), Clock([0, 0], [0, 0]), Wiring.nodes(1, scaleup_bw=1.0, scaleout_bw=1.0))


def test_a_clock_of_seconds() -> None:
    program = program_of(make("one_f_one_b", 2, 2))
    wiring = Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0, latency_s=(0.0, 0.25))
    clock = Clock.of(program, wiring, lambda task: 1.5 if task.kind == "F" else 0.0)
    for number, task in enumerate(program.index.tasks):
        assert clock.ticks[number] == (3 * SECOND // 2 if task.kind == "F" else 0)
        assert clock.lags[number] == (SECOND // 4 if task.kind == "recv" else 0)
