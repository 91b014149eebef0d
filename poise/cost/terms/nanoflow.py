"""NanoFlow: operators of several nano-batches run side by side, each kind with its part of the SMs.

Zhu et al. (arXiv 2408.12757, OSDI 2025). Sections 3 and 4: executed one after the other, the parts of an iteration that
arithmetic, memory and links bind add up; overlapped, the largest is left at best. The number of nano-batches, their
sizes and shares of the SMs are searched once for a pool, for a dense batch of its token budget, as the paper does
before serving; each step is then played through under that plan (`poise.cost.nano_batches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.lines import Line, pieces
from poise.cost.nano_batches import NAMES, Plan, played, search
from poise.cost.work import Work, Works, efficiencies

CONTEXT = 700
"""Tokens of context of a decode in the batch that a plan is searched for; half of its tokens are of prompts."""
KNOTS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Where a step's time is computed, in parts of the KV whose reading takes as long as arithmetic; straight between."""


def optimum(pool: Pool, tokens: int) -> float:
    """Tokens per second and device in steps of `tokens` decodes where the datasheet's arithmetic alone takes time."""
    works = Works(pool)
    return tokens / (works.of(StepShape(tokens)).arithmetic.base / SECOND) / pool.devices / works.use.gemm_bf16


@dataclass(frozen=True, slots=True)
class NanoFlow:
    """overlap: None to search a plan; or the part of what could be hidden that is, in [0, 1]: 1 is the bound.
    nano: nano-batches; of a plan 2, 3 or 4, 0 to search that, too. A step that would gain nothing is not cut.
    """

    hides: ClassVar[tuple[str, ...]] = ("arithmetic", "links", "memory")
    overlap: float | None = None
    nano: int = 0

    def __post_init__(self) -> None:
        if self.overlap is not None and not 0 <= self.overlap <= 1:
            raise ScenarioError(f"overlap {self.overlap} is no part of what could be hidden; give 0 up to 1")
        if self.nano < 0 or self.nano == 1:
            raise ScenarioError(f"nano {self.nano}: one batch overlaps with nothing; give 2 or more, or 0 to search it")
        if self.overlap is None and self.nano > 4:
            raise ScenarioError(f"nano {self.nano}: a plan has 2 to 4 nano-batches; give one of them, or `overlap`")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with operators overlapped."""
        return Planned(inner, pool, self) if self.overlap is None else Overlapped(inner, pool, self)


class Overlapped(EstimatorWrapper):
    """Steps of which `overlap` of what could be hidden is; no shorter than their largest resource (`Work.bound`).

    With s in series and b the largest resource of a step in parts, it takes the inner one's time less
    overlap · (s − b). Sliding-window layers' reading is not overlapped.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: NanoFlow) -> None:
        super().__init__(inner)
        self.works, self.overlap, self.nano = Works(pool, efficiencies(inner)), term.overlap or 0.0, term.nano or 2

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: the inner one where overlapping would be longer."""
        piece = self.inner.step(shape)
        if piece.then is not None or not (shape.decodes or shape.chunks):
            return piece
        whole, cut = self.works.of(shape), self.works.of(shape, self.nano)
        alone = Line(piece.base, piece.per_kv)
        rest = alone.plus(whole.series, -self.overlap)
        lines = [alone, *cut[:3], *(rest.plus(line, self.overlap) for line in cut[:3])]
        return pieces(lines, _shorter, piece.per_window)

    def describe(self) -> dict[str, object]:
        """The inner one's, and how much overlaps."""
        return {**self.inner.describe(), "nanoflow": {"overlap": self.overlap, "nano": self.nano}}


def _shorter(values: Sequence[float]) -> float:
    alone, *cut = values
    return min(alone, max(cut))


class Planned(EstimatorWrapper):
    """Steps of which each is played through under one plan; no shorter than their largest resource (`Work.bound`).

    Host time, kernels' fixed times and the output head stay as they are in the inner one.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: NanoFlow) -> None:
        super().__init__(inner)
        self.works = Works(pool, efficiencies(inner))
        self.nano = (term.nano,) if term.nano else (2, 3, 4)
        self._plan: Plan | None = None
        self._pieces: dict[StepShape, Piece] = {}

    @property
    def plan(self) -> Plan:
        """Nano-batches and shares, searched for when they are first needed."""
        if self._plan is None:
            half = max(1, self.works.pool.engine.token_budget // 2)
            self._plan = search(self.works, StepShape(half, (Chunk(half, 0),)), half * CONTEXT, self.nano)
        return self._plan

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: the inner one where nano-batches would be longer."""
        known = self._pieces.get(shape)
        if known is not None:
            return known
        piece = self.inner.step(shape)
        if piece.then is None and (shape.decodes or shape.chunks):
            piece = self._cut(shape, piece)
        if len(self._pieces) > 4096:
            self._pieces.clear()
        self._pieces[shape] = piece
        return piece

    def _cut(self, shape: StepShape, alone: Piece) -> Piece:
        """Straight lines between the times at `KNOTS`; behind the last as the line before, or as memory binds."""
        work = self.works.of(shape)
        per_kv = work.memory.per_kv
        if not per_kv:
            return alone._replace(base=max(round(self._at(shape, alone, work, 0.0)), 1))
        unit = max(work.arithmetic.base, 1.0) / per_kv
        at = [round(each * unit) for each in KNOTS]
        times = [self._at(shape, alone, work, kv) for kv in at]
        if times == [alone.base + alone.per_kv * kv for kv in at]:
            return alone
        slopes = [(two - one) / (b - a) for (one, two), (a, b) in zip(pairwise(times), pairwise(at), strict=True)]
        slopes.append(min(max(slopes[-1], per_kv), alone.per_kv))
        found: Piece | None = None
        for kv, time, slope, until in reversed(list(zip(at, times, slopes, [*at[1:], alone.until_kv], strict=True))):
            found = Piece(round(time - slope * kv), round(slope), alone.per_window, until, found)
        assert found is not None
        return found

    def _at(self, shape: StepShape, alone: Piece, work: Work, kv: float) -> float:
        _, k = self.works.lane(shape.share)
        head = max(k.head_token * self.works.tokens(shape).sampled, k.head_weights)
        whole = alone.base + alone.per_kv * kv
        cut = whole - (work.series.at(kv) - head) + played(self.works, self.plan, shape, kv)
        return min(whole, max(cut, work.bound(kv)))

    def describe(self) -> dict[str, object]:
        """The inner one's, and the plan."""
        shares = {"+".join(NAMES[kind] for kind in kinds): each for kinds, each in self.plan.shares.items()}
        return {**self.inner.describe(), "nanoflow": {"parts": self.plan.parts, "shares": shares}}
