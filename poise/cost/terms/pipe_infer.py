"""PipeInfer: a draft model's proposals keep the stages of a pipeline full where few requests decode.

Butler et al. (arXiv 2407.11798). The draft model runs on a node of its own; runs of its proposals follow one another
through the stages, and a rejection cancels what is under way. `poise.cost.pipe_infer` has it in closed form for one
request. Here n requests take turns at each stage, so that a run of one follows its last one n stages' times later. With
as many as there are stages every stage has work without proposals: their microbatches then have runs in place of single
tokens, a pass apart, which is what is left of speculation. Requests of a microbatch go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost.drafted import attention_grows
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.lines import Line, pieces

LONGEST = 8
"""Proposals of the longest run that is tried."""


@dataclass(frozen=True, slots=True)
class PipeInfer:
    """acceptance: chance that a proposal is kept, those before it being kept.  run: proposals of a run; 0: as many as
    are best at each step, up to 8.  draft: the part of a pass of the pipeline that a proposal takes its node, which
    proposes for all requests at once (a fiftieth, for a draft model of that size).
    """

    takes: ClassVar[tuple[str, ...]] = ("decodes",)
    acceptance: float = 0.7
    run: int = 0
    draft: float = 0.02

    def __post_init__(self) -> None:
        if not 0 <= self.acceptance < 1:
            raise ScenarioError(f"acceptance {self.acceptance} is no chance below 1; give 0 up to 1")
        if self.run < 0 or self.draft < 0:
            raise ScenarioError(f"run {self.run} and draft {self.draft} are 0 or more; correct them")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with proposals in its idle stages; ScenarioError for a pool that has no such stages."""
        if pool.pipeline < 2 or pool.data > 1:
            raise ScenarioError(
                f"pool.pipeline is {pool.pipeline} (data {pool.data}): proposals fill the idle stages of one pipeline; "
                "give pipeline: 2 or more, and data: 1"
            )
        return Pipelined(inner, pool, self)


class Pipelined(EstimatorWrapper):
    """A step is the time in which each decode makes a token in the mean, never longer than without proposals.

    Steps with prompts are the inner ones, for prompts fill the stages, and so are steps that take the larger of several
    lines already. What sliding-window layers read is not sped up.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: PipeInfer) -> None:
        super().__init__(inner)
        self.term, self.stages = term, pool.pipeline
        runs = (term.run,) if term.run else range(1, LONGEST + 1)
        self.attention = {run: attention_grows(pool, run - 1) for run in runs}
        self._known: dict[StepShape, Piece] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        piece = self.inner.step(shape)
        if shape.chunks or not shape.decodes or piece.then is not None:
            return piece
        found = self._known.get(shape)
        if found is None:
            one = Line(piece.base, piece.per_kv)
            lines = [one]
            for run in self.attention:
                lines += self._token(one, self._pass(shape, one, run), shape.decodes, run)
            found = self._known[shape] = pieces(lines, _best, piece.per_window)
        return found

    def _pass(self, shape: StepShape, one: Line, run: int) -> Line:
        """A run of proposals through all stages: a microbatch of as many tokens, which read their KV once."""
        full = max(shape.decodes, self.stages)
        wide, narrow = (self.inner.step(shape._replace(decodes=full * each)).base for each in (run, 1))
        return Line(one.base + wide - narrow, one.per_kv * self.attention[run])

    def _token(self, one: Line, many: Line, decodes: int, run: int) -> tuple[Line, Line]:
        """A token in the mean, where stages bind and where the draft model does: `Stream.pipelined` upside down."""
        a = self.term.acceptance
        passes = Line(0.0).plus(one, (1 - a) ** 2).plus(many, (1 - a) * a)
        intervals = (1 - a) * a / (1 - a**run)
        turns = min(decodes / self.stages, 1)
        return passes.plus(many, intervals * turns), passes.plus(one, intervals * run * self.term.draft)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what is proposed."""
        facts = {"acceptance": self.term.acceptance, "run": self.term.run, "draft": self.term.draft}
        return {**self.inner.describe(), "pipe_infer": facts}


def _best(values: Sequence[float]) -> float:
    """No proposals, or the best run, which takes as long as the slower of its two binds."""
    plain, *rest = values
    return min(plain, *map(max, zip(rest[::2], rest[1::2], strict=True)))
