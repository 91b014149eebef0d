"""Every schedule on four real processes: the gradients are those of one process."""

from __future__ import annotations

from random import Random

import pytest

from poise.pipeline import B, F, I, Op, Schedule, W, make, names
from poise.pipeline.communicate import communicate
from poise.pipeline.op import COMMUNICATIONS
from tests.runtime.pool import RANKS, Pool
from tests.runtime.truth import error, run

EXACT = 1e-10

QUICK = {"chimera", "interleaved", "zb_auto", "zb_v"}
"""Copies, several stages on a rank, split backwards, a V: the others are run by `make test-slow`."""

CHANGING = {"pipedream", "pipelined_backprop"}
"""Their weights change behind every backward: see test_beside.py."""

each_schedule = pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names() if name not in CHANGING],
)


@each_schedule
def test_gradients_are_those_of_one_process(pool: Pool, name: str) -> None:
    schedule = make(name, RANKS, 8)
    results = pool.run(run, schedule)
    assert error(schedule, results) < EXACT
    for row, (*_, done) in zip(communicate(schedule).ranks, results, strict=True):
        assert sorted(done) == sorted(map(str, row))
        computed = [str(op) for op in row if op.kind not in COMMUNICATIONS]
        assert [each for each in done if each in computed] == computed


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 30))])
def test_any_placement_runs(pool: Pool, seed: int) -> None:
    """Eight stages dealt to four ranks as it comes, B and I with W mixed, two copies of some stages."""
    draw = Random(seed)
    layouts = [[0, 1, 1, 3, 2, 3, 0, 0], [3, 1, 2, 2, 0, 0, 1, 3]]
    for layout in layouts:
        draw.shuffle(layout)
    home = [draw.choice(layouts) for _ in range(4)]
    rows: list[list[Op]] = [[] for _ in range(RANKS)]
    ready = [F(0, batch) for batch in range(4)]
    while ready:
        stage, kind, batch = op = ready.pop(draw.randrange(len(ready)))
        assert batch is not None
        rows[home[batch][stage]].append(op)
        if kind == 0:
            ready.append(F(stage + 1, batch) if stage < 7 else draw.choice((I, B))(stage, batch))
            continue
        if kind == 1:
            ready.append(W(stage, batch))
        if kind in (1, 3) and stage:
            ready.append(draw.choice((I, B))(stage - 1, batch))
    schedule = Schedule.of(rows)
    assert error(schedule, pool.run(run, schedule)) < EXACT


def test_a_faulty_schedule_is_refused_before_anything_runs(pool: Pool) -> None:
    good = make("one_f_one_b", RANKS, 4)
    bad = Schedule.of((row[1:] if rank == 2 else row for rank, row in enumerate(good.ranks)))
    with pytest.raises(AssertionError, match=r"ScheduleError: .*2F0 never runs"):
        pool.run(run, bad)
    with pytest.raises(AssertionError, match="the schedule has 2 ranks, the process group 4"):
        pool.run(run, make("gpipe", 2, 4))


def test_pipelines_of_one_process_share_their_groups(pool: Pool) -> None:
    """torch keeps a thread for every group until the process ends."""
    schedule = make("chimera", RANKS, 8)
    first = pool.run(groups_behind, schedule)
    again = pool.run(groups_behind, schedule)
    assert first == again
    assert min(first) > 1  # the copies of chimera's stages do have groups


def groups_behind(schedule: Schedule) -> int:
    """How many groups this process has behind a step."""
    import torch.distributed as dist

    run(schedule)
    return len(dist.distributed_c10d._world.pg_names)
