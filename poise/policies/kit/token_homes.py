"""Ranks for the ids of tokens, by the experts that they use, and a batch's tokens on ranks by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def homes(score: NDArray[Any], tokens: NDArray[Any], slack: float = 0.05) -> NDArray[Any]:
    """(ids,) the rank of each id: the one of the highest score that has room, the most frequent ids first.

    score: (ids × ranks) pairs that stay local.  tokens: pairs of each id.  slack: room of a rank over the mean. An id
    that fits nowhere goes to the rank with the fewest tokens.
    """
    import numpy as np

    ranks = score.shape[1]
    room = np.full(ranks, tokens.sum() / ranks * (1 + slack))
    found = np.full(len(tokens), -1)
    left = np.argsort(-tokens, kind="stable")
    full = np.zeros(ranks, dtype=bool)
    while len(left) and not full.all():
        wish = np.where(full, -1.0, score[left]).argmax(axis=1)
        for rank in range(ranks):
            ids = left[wish == rank]
            taken = np.cumsum(tokens[ids]) <= room[rank]
            found[ids[taken]] = rank
            room[rank] -= tokens[ids[taken]].sum()
            full[rank] |= not taken.all()
        left = left[found[left] < 0]
    for each in left:
        found[each] = room.argmax()
        room[found[each]] -= tokens[each]
    return found


def shuffled(home: NDArray[Any], ranks: int) -> NDArray[Any]:
    """(tokens,) the rank of each token of a batch: sorted by the rank of their ids, then cut into equal parts."""
    import numpy as np

    found = np.empty(len(home), dtype=np.int64)
    found[np.argsort(home, kind="stable")] = np.arange(len(home)) * ranks // len(home)
    return found
