"""Speculative MoE: experts and tokens that belong together on one rank, and tokens sent there before the router asks.

Li, Zheng, Chen, Xu, Lai, Du and Wang, arXiv 2503.04398 (2025). Recorded routing says how often a token of each id goes
to each expert (the confidence table). Offline (s-EG) experts and ids are clustered in turn: experts go where the ids
are that use them, ids where their experts are, with equally many experts and about as many tokens on each rank; the
best round counts, by the largest load and by what is exchanged. Online (s-TS) a batch's tokens are sorted by the rank
that the table names for their id and cut into equal parts, one for each rank, inside collectives that run anyway. A
token whose experts are all there is not sent again. What is computed does not change.

Parameters: `gamma` (1.0): what the largest load over the mean weighs beside the part of pairs that are exchanged.
`rounds` (8): of clustering. `starts` (4): placements to begin with, packed by load, in force, then drawn at random; the
best answer counts. `seed` (0). `slack` (0.05): how far over the mean an id may bring a rank's tokens.

Deviations: pairs of experts attract each other through the ids that use both, without a term of their own. Exchanges of
experts are all tried, not at random ones. The device that a token had two layers before is not regarded. Without
`words` experts are packed by load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from poise.experts import ExpertPlacement, ExpertView
from poise.experts.packing import pack
from poise.policies.kit.token_homes import homes

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Grouping(NamedTuple):
    """Experts and ids on ranks.

    placement: of the experts, one copy each.  home: (layers × ids) the rank where tokens of an id are sent.
    """

    placement: ExpertPlacement
    home: NDArray[Any]


@dataclass(frozen=True, slots=True)
class SpeculativeMoe:
    """Cluster experts and ids of tokens. See the module for the rule and its parameters."""

    gamma: float = 1.0
    rounds: int = 8
    starts: int = 4
    seed: int = 0
    slack: float = 0.05

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """One copy of each expert, where the ids are that use it."""
        return self.group(view).placement

    def group(self, view: ExpertView) -> Grouping:
        """The placement, and where tokens of each id are sent."""
        import numpy as np

        where = pack(view.counts, view.ranks)
        home = np.zeros((view.layers, 0), dtype=np.int64)
        if view.words is not None:
            draw = np.random.default_rng(self.seed)
            begin = [where, view.standing().holds.argmax(axis=1)][: self.starts]
            begin += [draw.permuted(where, axis=1) for _ in range(self.starts - 2)]
            found = [
                min((self._clustered(words, each[at], view.ranks) for each in begin), key=lambda each: each[0])
                for at, words in enumerate(view.words)
            ]
            where, home = np.stack([each[1] for each in found]), np.stack([each[2] for each in found])
        on = np.eye(view.ranks, dtype=np.int16)[where]
        return Grouping(ExpertPlacement(on.transpose(0, 2, 1)), home)

    def _clustered(
        self, words: NDArray[Any], where: NDArray[Any], ranks: int
    ) -> tuple[float, NDArray[Any], NDArray[Any]]:
        """The cost, and the rank of each expert and of each id of a layer, of the best round from a placement."""
        import numpy as np

        counts, total = words.sum(axis=0), words.sum() or 1.0
        best, found = np.inf, (where, np.zeros(len(words), dtype=np.int64))
        for _ in range(self.rounds):
            home = homes(words @ np.eye(ranks)[where], words.sum(axis=1), self.slack)
            uses = np.stack([words[home == rank].sum(axis=0) for rank in range(ranks)], axis=1)  # (experts × ranks)
            largest = np.bincount(where, weights=counts, minlength=ranks).max() * ranks / total
            cost = self.gamma * largest - uses[np.arange(len(where)), where].sum() / total
            if cost >= best - 1e-9:
                break
            best, found = cost, (where, home)
            where = self._exchanged(where, uses / total, counts * ranks / total)
        return best, *found

    def _exchanged(self, where: NDArray[Any], uses: NDArray[Any], load: NDArray[Any]) -> NDArray[Any]:
        """Ranks of experts after exchanges of two, the best first, while local pairs gain more than balance loses.

        uses: (experts × ranks) parts of all pairs.  load: of each expert, the mean rank having 1.
        """
        import numpy as np

        where, experts = where.copy(), np.arange(len(where))
        for _ in range(4 * len(where)):
            ranks = np.bincount(where, weights=load, minlength=uses.shape[1])
            there = uses[:, where] - uses[experts, where][:, None]  # what an expert gains on another one's rank
            less = load[:, None] - load[None, :]
            high = np.maximum(ranks[where][:, None] - less, ranks[where][None, :] + less)
            gain = there + there.T - self.gamma * (np.maximum(high, _others(ranks, where)) - ranks.max())
            gain[where[:, None] == where[None, :]] = 0.0
            one, other = np.unravel_index(gain.argmax(), gain.shape)
            if gain[one, other] <= 1e-9:
                break
            where[one], where[other] = where[other], where[one]
        return where


def _others(ranks: NDArray[Any], where: NDArray[Any]) -> NDArray[Any]:
    """(experts × experts) the largest load of a rank that has neither of two experts."""
    import numpy as np

    ranks = np.concatenate([ranks, np.zeros(3)])
    order = np.argsort(-ranks)
    one, other = where[:, None], where[None, :]
    found: NDArray[Any] = np.where((order[1] != one) & (order[1] != other), ranks[order[1]], ranks[order[2]])
    found[(order[0] != one) & (order[0] != other)] = ranks[order[0]]
    return found
