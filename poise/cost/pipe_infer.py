"""PipeInfer: speculation that keeps a pipeline of the target model full, for a single stream.

Butler et al. (arXiv 2407.11798). A draft model on a node of its own proposes on; runs of proposals follow one another
through the stages, the first run after each rejection being a single token. A rejection cancels what is under way. In
closed form, with chance a that a proposal is kept: a rejection comes after G kept tokens, P(G = g) = a^g (1 − a).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from random import Random

from poise.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Stream:
    """stages: N.  stage_s: of one token in one stage.  hop_s: between stages.  draft_s: of one proposal.
    grows: how much longer a stage takes for each further token of a run, over one token (0: reading weights binds).
    """

    stages: int
    stage_s: float
    acceptance: float
    hop_s: float = 0.0
    draft_s: float = 0.0
    grows: float = 0.0

    def __post_init__(self) -> None:
        if self.stages < 1 or self.stage_s <= 0 or min(self.hop_s, self.draft_s, self.grows) < 0:
            raise UserError(f"{self}: stages and stage_s are above 0 and no duration is below; correct them")
        if not 0 <= self.acceptance < 1:
            raise UserError(f"acceptance {self.acceptance} is no chance below 1; give 0 up to 1")

    def in_stage_s(self, tokens: int) -> float:
        """Seconds of a run of `tokens` tokens in one stage."""
        return self.stage_s * (1 + self.grows * (tokens - 1))

    def through_s(self, tokens: int) -> float:
        """Seconds of a run through all stages."""
        return self.stages * (self.in_stage_s(tokens) + self.hop_s)

    def plain(self) -> float:
        """Tokens per second without speculation."""
        return 1 / self.through_s(1)

    def speculative(self, drafts: int) -> float:
        """Tokens per second where `drafts` proposals are made, then verified in one run, before the next are made."""
        a = self.acceptance
        tokens = sum(a**at for at in range(drafts + 1))
        return tokens / (drafts * self.draft_s + self.through_s(drafts + 1))

    def best_speculative(self, most: int = 16) -> float:
        """The same with the best number of proposals."""
        return max(self.speculative(drafts) for drafts in range(1, most + 1))

    def pipelined(self, run: int = 1) -> float:
        """Tokens per second of PipeInfer with runs of `run` proposals.

        From one rejection to the next: the single token's run judges the first proposal, each later run `run` more, an
        interval apart. So 1/(1 − a) tokens come in N·t(1) + a·N·(t(run) − t(1)) + a/(1 − a^run) intervals.
        """
        a = self.acceptance
        longer = self.through_s(run) - self.through_s(1)
        return 1 / (1 - a) / (self.through_s(1) + a * longer + a / (1 - a**run) * self.interval_s(run))

    def best_pipelined(self, most: int = 8) -> float:
        """The same with the best length of runs."""
        return max(self.pipelined(run) for run in range(1, most + 1))

    def interval_s(self, run: int) -> float:
        """Seconds between runs: of the slower of a stage and the draft model."""
        return max(self.in_stage_s(run) + self.hop_s, run * self.draft_s)

    def played(self, tokens: int, run: int = 1, seed: int = 0) -> float:
        """Tokens per second of PipeInfer over a stream that is drawn proposal by proposal."""
        chance, now, made = Random(seed), 0.0, 0
        while made < tokens:
            kept = 0
            while chance.random() < self.acceptance:
                kept += 1
            runs = ceil(kept / run)
            now += self.through_s(min(runs, 1) * (run - 1) + 1) + runs * self.interval_s(run)
            made += kept + 1
        return made / now


def drawn(stream: Stream, tokens: int, run: int = 1, seed: int = 0) -> float:
    """How many times as fast a drawn stream is as the closed form says."""
    return stream.played(tokens, run, seed) / stream.pipelined(run)
