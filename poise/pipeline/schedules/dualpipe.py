"""DualPipe (DeepSeek-V3 technical report, 2024, section 3.2.1; order of the published code): both ends feed at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from poise.core.errors import ScheduleError
from poise.pipeline.op import B, F, I, Op, W
from poise.pipeline.schedule import Schedule


def dualpipe(stages: int, microbatches: int) -> Schedule:
    """Bubble (p / 2 − 1)(T_FB + T_B − 2 T_W) as published, weights twice, peak p + 1 on every rank.

    Rank r has stage r for the first half of the microbatches and stage p − 1 − r for the other half, which enters at
    the other end. T_FB is a forward and a backward side by side (`program.passes.side_by_side`). In the schedule they
    follow one another and each sends when it ends, which leaves p / 2 − 1 at T_F = T_B = T_W. p and m are even and m is
    at least 2p.
    """
    if stages % 2 or microbatches % 2 or microbatches < 2 * stages:
        raise ScheduleError(
            f"dualpipe: {stages} stages and {microbatches} microbatches; both must be even and the microbatches at "
            "least twice the stages: give such numbers, or choose zb_v or dualpipe_v"
        )
    half = microbatches // 2

    def rank(place: int) -> Iterator[Op]:
        far = stages - 1 - place
        near = (place, 0), (far, half)
        routes = near if place < far else near[::-1]
        return phases(min(place, far), stages // 2, half, routes)

    return Schedule.of((rank(place) for place in range(stages)), "dualpipe")


def phases(place: int, ranks: int, count: int, routes: tuple[tuple[int, int], tuple[int, int]]) -> Iterator[Op]:
    """The eight phases of rank `place` of `ranks`, each of whose two routes carries `count` microbatches.

    A route is (stage, first microbatch). Route 0 comes from this rank's end of the pipeline, route 1 from the other.
    """
    forwards, backwards = [0, 0], [0, 0]
    waiting: deque[tuple[int, int]] = deque()

    def take(counts: list[int], make: Callable[[int, int], Op], route: int) -> Op:
        stage, begin = routes[route]
        counts[route] += 1
        return make(stage, begin + counts[route] - 1)

    def forward(route: int) -> Op:
        return take(forwards, F, route)

    def backward(route: int, split: bool = False) -> Op:
        op = take(backwards, I if split else B, route)
        if split:
            waiting.append((op.stage, op.microbatch or 0))
        return op

    beyond = ranks - place - 1
    for _ in range(2 * beyond):
        yield forward(0)
    for _ in range(place + 1):
        yield forward(0)
        yield forward(1)
    for _ in range(beyond):
        yield backward(1, split=True)
        yield W(*waiting.popleft())
        yield forward(1)
    for _ in range(count - 2 * ranks + place + 1):
        yield forward(0)
        yield backward(1)
        yield forward(1)
        yield backward(0)
    for _ in range(beyond):
        yield backward(1)
        yield forward(1)
        yield backward(0)
    for step in range(2 * (place + 1)):
        yield backward(1 - step % 2, split=step >= place + 1)
    for _ in range(beyond):
        yield W(*waiting.popleft())
        yield backward(0, split=True)
    for _ in range(place + 1):
        yield W(*waiting.popleft())
