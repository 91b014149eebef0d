"""A timed Program as a Chrome trace; a unit of time is shown as a millisecond."""

from __future__ import annotations

from collections.abc import Iterator

from poise.core.chrome_trace import Event, arrow, complete, counter, label, written
from poise.program.task import Lane
from poise.program.timed import Interval, Timed

_UNIT_US = 1000.0

Threads = dict[Lane, int]


def timeline(timed: Timed) -> bytes:
    """The file: a process for each rank, a thread for each lane, an arrow for each message, a counter for each tier."""
    return b"".join(written(_events(timed)))


def _events(timed: Timed) -> Iterator[Event]:
    step = _UNIT_US / timed.scale
    threads: Threads = {}
    count: dict[int, int] = {}
    for lane in timed.index.lanes:
        threads[lane] = count[lane.rank] = count.get(lane.rank, 0) + 1
    for rank in sorted(count):
        yield label("process_name", f"rank {rank}", rank + 1)
    for lane, thread in threads.items():
        yield label("thread_name", lane.name, lane.rank + 1, thread)
    for row in timed.rows():
        yield _slice(row, threads[row.lane], step)
    yield from _messages(timed, threads, step)
    for (rank, tier), held in timed.held.items():
        for instant, level in zip(held.instants, held.levels, strict=True):
            yield counter(f"held, {tier}", rank + 1, instant * step, held=float(level))


def _slice(row: Interval, thread: int, step: float) -> Event:
    task = row.task
    args = {"reads": " ".join(task.reads), "writes": " ".join(task.writes)}
    length = (row.end - row.start) * step
    return complete(str(task), row.lane.rank + 1, thread, row.start * step, length, cat=task.kind, args=args)


def _messages(timed: Timed, threads: Threads, step: float) -> Iterator[Event]:
    """An arrow from each send to its receive."""
    index = timed.index
    for receive, send in enumerate(index.source):
        if send < 0:
            continue
        places = [(index.lanes[index.lane[each]], timed.starts[each]) for each in (send, receive)]
        ends = [(lane.rank + 1, threads[lane], start * step) for lane, start in places]
        yield from arrow(str(index.tasks[send]), receive, ends[0], ends[1])
