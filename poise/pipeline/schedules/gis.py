"""GIS (Wan et al., "PipeOffload", ICML 2025, section 4): interleaved 1F1B with split backwards and less warm-up."""

from __future__ import annotations

from collections.abc import Iterator

from poise.core.errors import ScheduleError
from poise.pipeline.op import F, I, Op, W
from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.interleaved import slots


def gis(stages: int, microbatches: int, chunks: int = 2, group: int | None = None) -> Schedule:
    """Bubble (p − 1)(T_F + T_B) / v and peak p on rank 0 (pv chunks, where interleaved 1F1B has pv + p − 1).

    Rank r has chunks r, p + r, … and starts with p − r + (v − 1) `group` − 1 forwards. The group is p; a smaller one
    down to p / 2 holds (v − 1) `group` + p chunks and idles more, see `gis_h`. m is a multiple of the group.
    """
    size = stages if group is None else group
    if not (stages + 1) // 2 <= size <= stages or microbatches % size:
        least, near = (stages + 1) // 2, max(1, round(microbatches / size)) * size
        raise ScheduleError(
            f"gis: group {size} for {stages} stages and {microbatches} microbatches; it must be from {least} to "
            f"{stages} and divide the microbatches: give {near} of them, say"
        )
    table = list(slots(microbatches, chunks, size))

    def rank(place: int) -> Iterator[Op]:
        ahead = min(len(table), (chunks - 1) * size + stages - place - 1)
        forwards = [F(chunk * stages + place, batch) for chunk, batch in table]
        yield from forwards[:ahead]
        for at, (chunk, batch) in enumerate(table):
            stage = (chunks - 1 - chunk) * stages + place
            yield from forwards[ahead + at : ahead + at + 1]
            yield I(stage, batch)
            yield W(stage, batch)

    return Schedule.of((rank(place) for place in range(stages)), "gis")
