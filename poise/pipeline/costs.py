"""How long operations and messages take: exact numbers per stage, microbatch, rank and link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from poise.core.errors import ScheduleError
from poise.pipeline.op import Kind

Number = int | float | str | Fraction
Numbers = Number | Sequence[Number]

ONE = Fraction(1)


@dataclass(frozen=True)
class Costs:
    """Durations in any one unit, for full stages: a pipeline of p ranks has p of them, whatever its chunks.

    `f`, `b` and `w` are forward, input gradient and weight gradient; a backward in one piece takes b + w. `comm` is the
    time of one message between rank i and the next one, the last entry that between the last rank and the first. Each
    has one entry, or one per full stage; f, b and w may also have one per chunk, of that chunk alone. Cut into v chunks
    a full stage gives each its v-th part, wherever the chunk lies. `microbatch` are factors on the work and copies of
    each microbatch and `rank` factors on the work of each rank (stragglers).

    `links` are the times of one message between each two ranks, in place of `comm`, where no ring connects them.
    `r` is the recomputation of a forward (default: as long as `f`); `offload` and `reload` the copy of a full stage's
    activations to the host and back, one at a time in each direction or, with `shared_copy`, one at a time on a rank.
    `s` and `t` are the vocabulary passes of each rank, `barrier` the time from the last rank's pass to all others.
    """

    f: tuple[Fraction, ...] = (ONE,)
    b: tuple[Fraction, ...] = (ONE,)
    w: tuple[Fraction, ...] = (ONE,)
    comm: tuple[Fraction, ...] = (Fraction(0),)
    microbatch: tuple[Fraction, ...] = (ONE,)
    rank: tuple[Fraction, ...] = (ONE,)
    r: tuple[Fraction, ...] | None = None
    offload: tuple[Fraction, ...] = (Fraction(0),)
    reload: tuple[Fraction, ...] = (Fraction(0),)
    s: tuple[Fraction, ...] = (Fraction(0),)
    t: tuple[Fraction, ...] = (Fraction(0),)
    barrier: Fraction = Fraction(0)
    shared_copy: bool = False
    links: tuple[tuple[Fraction, ...], ...] | None = None

    @classmethod
    def of(
        cls, f: Numbers = 1, b: Numbers = 1, w: Numbers = 1, comm: Numbers = 0,
        *, microbatch: Numbers = 1, rank: Numbers = 1, r: Numbers | None = None, offload: Numbers = 0,
        reload: Numbers = 0, s: Numbers = 0, t: Numbers = 0, barrier: Number = 0, shared_copy: bool = False,
        links: Sequence[Sequence[Number]] | None = None,
    ) -> Costs:  # fmt: skip
        """Costs from numbers or decimal texts, which are taken exactly; floats to 12 digits, without their noise."""
        names = {"f": f, "b": b, "w": w, "comm": comm, "microbatch": microbatch, "rank": rank}
        names |= {"offload": offload, "reload": reload, "s": s, "t": t}
        rows = {name: _exact(name, given) for name, given in names.items()}
        again = None if r is None else _exact("r", r)
        pairs = None if links is None else tuple(_exact("links", row) for row in links)
        return cls(**rows, r=again, barrier=_exact("barrier", barrier)[0], shared_copy=shared_copy, links=pairs)

    def whole(self, ranks: int) -> Costs:
        """The same for full stages, where they are of chunks: so that a schedule of other chunks can be timed."""

        def joined(given: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
            chunks = len(given) // ranks
            if chunks < 2 or len(given) % ranks:
                return given
            return tuple(sum(given[at : at + chunks], Fraction(0)) for at in range(0, len(given), chunks))

        again = None if self.r is None else joined(self.r)
        return replace(self, f=joined(self.f), b=joined(self.b), w=joined(self.w), r=again)

    def times(self, factor: Fraction) -> Costs:
        """The same in another unit, `factor` of which are one of this; factors on the work stay."""

        def times(row: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
            return tuple(each * factor for each in row)

        return replace(
            self, f=times(self.f), b=times(self.b), w=times(self.w), comm=times(self.comm), s=times(self.s),
            t=times(self.t), offload=times(self.offload), reload=times(self.reload), barrier=self.barrier * factor,
            r=None if self.r is None else times(self.r),
            links=None if self.links is None else tuple(times(row) for row in self.links),
        )  # fmt: skip

    def at(self, ranks: int, stages: int, microbatches: int) -> Durations:
        """The durations of a schedule of this size, as integers of one scale."""
        work = [_per_stage(name, given, ranks, stages) for name, given in self._work()]
        passes = [_spread(name, given, ranks) for name, given in (("s", self.s), ("t", self.t))]
        comm = _spread("comm", self.comm, ranks)
        parts = _spread("microbatch", self.microbatch, microbatches)
        speeds = _spread("rank", self.rank, ranks)
        largest = max(sum(work[0][at : at + max(1, stages // ranks)], Fraction(0)) for at in _full(ranks, stages))
        links = [_spread("links", row, ranks) for row in self.links or ()]
        if self.links is not None and len(links) != ranks:
            raise ScheduleError(f"links: {len(links)} rows for {ranks} ranks; give one for each, of as many values")
        flat = [*chain_of(work), *chain_of(passes), *comm, *chain_of(links), self.barrier]
        scale = lcm(*(each.denominator for each in flat)) * lcm(*(each.denominator for each in parts))
        scale *= lcm(*(each.denominator for each in speeds))
        return Durations(
            work=tuple(tuple(each * scale for each in row) for row in work[:3]),
            comm=tuple(int(each * scale) for each in comm),
            microbatch=parts,
            rank=speeds,
            scale=scale,
            largest_f=largest,
            beside=tuple(tuple(each * scale for each in row) for row in (*work[3:], *passes)),
            barrier=int(self.barrier * scale),
            shared_copy=self.shared_copy,
            links=tuple(tuple(int(each * scale) for each in row) for row in links),
        )

    def _work(self) -> list[tuple[str, tuple[Fraction, ...]]]:
        again = self.f if self.r is None else self.r
        main = [("f", self.f), ("b", self.b), ("w", self.w), ("r", again)]
        return [*main, ("offload", self.offload), ("reload", self.reload)]


@dataclass(frozen=True)
class Durations:
    """Costs of one size: `scale` to the unit in which they were given; `largest_f` is in that unit.

    `work` are F, I and W by stage; `beside` are R, OFFLOAD and RELOAD by stage, S and T by rank.
    """

    work: tuple[tuple[Fraction, ...], ...]
    comm: tuple[int, ...]
    microbatch: tuple[Fraction, ...]
    rank: tuple[Fraction, ...]
    scale: int
    largest_f: Fraction
    beside: tuple[tuple[Fraction, ...], ...] = ()
    barrier: int = 0
    shared_copy: bool = False
    links: tuple[tuple[int, ...], ...] = ()

    @property
    def even(self) -> bool:
        """Whether a stage takes the same time for every microbatch on every rank."""
        return len({*self.microbatch}) == len({*self.rank}) == 1

    def of(self, kind: int, stage: int, microbatch: int, rank: int) -> int:
        """Ticks of one operation, or of the copy that it starts; `kind` is a number of `Kind`."""
        if kind == Kind.B:
            work = self.work[1][stage] + self.work[2][stage]
        else:
            work = self.work[kind][stage] if kind < Kind.B else self.beside[kind - Kind.R][stage]
        speed = 1 if kind in (Kind.OFFLOAD, Kind.RELOAD) else self.rank[rank]
        return int(work * self.microbatch[microbatch] * speed)

    def table(self) -> list[list[int]]:
        """Ticks by kind and stage, where they are `even`."""
        stages = len(self.work[0])
        rows = [[0] * stages for _ in Kind]
        for kind, row in (*enumerate(self.work), *enumerate(self.beside, Kind.R)):
            copy = kind in (Kind.OFFLOAD, Kind.RELOAD)
            factor = self.microbatch[0] * (1 if copy else self.rank[0])
            rows[kind][: len(row)] = [int(each * factor) for each in row[:stages]]
        rows[Kind.B] = [i + w for i, w in zip(rows[Kind.I], rows[Kind.W], strict=True)]
        return rows

    def hop(self, here: int, there: int) -> int:
        """Ticks of a message between two ranks: the link between neighbours, else the slowest on the way."""
        low, high = min(here, there), max(here, there)
        if low == high:
            return 0
        if self.links:
            return self.links[here][there]
        if low == 0 and high == len(self.comm) - 1 and high > 1:
            return self.comm[high]
        return max(self.comm[low:high])


def chain_of(rows: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """All entries of all rows."""
    return [each for row in rows for each in row]


def _full(ranks: int, stages: int) -> range:
    """Where the full stages begin."""
    return range(0, stages, max(1, stages // ranks))


def _exact(name: str, given: Numbers) -> tuple[Fraction, ...]:
    entries = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    try:
        found = tuple(Fraction(f"{each:.12g}") if isinstance(each, float) else Fraction(each) for each in entries)
    except (ValueError, ZeroDivisionError):
        raise ScheduleError(f"{name}: {given!r} is no number; give one, or one per stage, as in 1 or 1,1.5") from None
    if not found or min(found) < 0:
        raise ScheduleError(f"{name}: {given!r} is negative or empty; times are 0 or more")
    if name in ("f", "b") and not max(found):
        raise ScheduleError(f"{name}: {given!r} is 0 on every stage; give the time of a full stage, as in 1")
    return found


def _spread(name: str, given: tuple[Fraction, ...], count: int) -> tuple[Fraction, ...]:
    if len(given) == 1:
        return given * count
    if len(given) != count:
        raise ScheduleError(f"{name}: {len(given)} values for {count}; give one, or {count}")
    return given


def _per_stage(name: str, given: tuple[Fraction, ...], ranks: int, stages: int) -> tuple[Fraction, ...]:
    """The work of each of the `stages` from one value, one per full stage, or one per stage."""
    if len(given) == stages:
        return given
    if len(given) not in (1, ranks):
        wanted = f"one, {ranks}" + (f", or {stages} (one per chunk)" if stages != ranks else "")
        raise ScheduleError(f"{name}: {len(given)} values for {ranks} stages; give {wanted}")
    full = given if len(given) == ranks else given * ranks
    if stages % ranks:
        if len(given) == ranks:
            raise ScheduleError(f"{name}: {stages} stages are no multiple of {ranks} ranks; give one per stage")
        return (given[0] * ranks / stages,) * stages
    chunks = stages // ranks
    return tuple(full[stage // chunks] / chunks for stage in range(stages))
