"""2BP (Rae et al., "2-Stage Backpropagation", 2024): weight gradients are put off into gaps, or to the end."""

from __future__ import annotations

from collections.abc import Iterator

from poise.core.errors import ScheduleError
from poise.pipeline.op import F, I, Op, W
from poise.pipeline.schedule import Schedule

BASES = ("one_f_one_b", "gpipe")


def two_bp(stages: int, microbatches: int, base: str = "one_f_one_b", fill: bool = True) -> Schedule:
    """1F1B or GPipe whose weight gradients come at the end, or with `fill` in the gaps of 1F1B's drain as well.

    At T_F = T_B = T_W: makespan 3m + p − 1 with `fill`, 3m + 2(p − 1) without (both 1F1B and GPipe; naive, which is
    GPipe at m = 1, 2p + 1); the peak is m, since weight gradients keep activations. The paper runs the weight gradients
    of several microbatches as one product, which is a matter of durations.
    """
    if base not in BASES:
        raise ScheduleError(f"two_bp: base {base!r} is not known; give {' or '.join(BASES)}")

    def rank(stage: int) -> Iterator[Op]:
        ahead = microbatches if base == "gpipe" else min(stages - stage, microbatches)
        yield from (F(stage, batch) for batch in range(ahead))
        written = 0
        for batch in range(microbatches):
            yield I(stage, batch)
            if batch + ahead < microbatches:
                yield F(stage, batch + ahead)
            elif fill and base != "gpipe" and batch < microbatches - 1:
                yield W(stage, written)
                written += 1
        yield from (W(stage, batch) for batch in range(written, microbatches))

    return Schedule.of((rank(stage) for stage in range(stages)), "two_bp")
