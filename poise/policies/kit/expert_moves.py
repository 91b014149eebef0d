"""One change of one layer's placement: every one that relieves its most loaded rank, and the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARP = 16
"""The power mean of ranks' loads that stands for the largest, which alone would not see a second rank near it."""


class Change(NamedTuple):
    """What a change gains, as a part of the mean load for each expert that is fetched, and the copies that it moves.

    add, drop: (rank, expert) of copies that appear and go.
    """

    gain: float
    add: tuple[tuple[int, int], ...]
    drop: tuple[tuple[int, int], ...]


NONE = Change(0.0, (), ())


def best_change(holds: NDArray[Any], counts: NDArray[Any], slots: int) -> Change:
    """The change that lowers the largest load most for each fetch, in the load in which it does so least.

    holds: (ranks × experts) copies of one layer.  counts: (loads × experts) pairs; a gain is the
    least over these loads, as parts of their mean load of a rank.  slots: copies that a rank has room for.
    """
    import numpy as np

    part = counts / counts.sum(axis=1, keepdims=True) * len(holds)
    loads = (part / holds.sum(axis=0)) @ holds.T
    best = NONE
    for full in np.unique(loads.argmax(axis=1)):
        for change in (_copy(holds, part, slots, full, loads), _swap(holds, part, full, loads)):
            best = max(best, change, key=lambda each: each.gain)
    return best


def apply(holds: NDArray[Any], change: Change) -> None:
    """Make the change in `holds`."""
    for rank, expert in change.add:
        holds[rank, expert] += 1
    for rank, expert in change.drop:
        holds[rank, expert] -= 1


def _largest(total: NDArray[Any], ranks: int) -> NDArray[Any]:
    """The power mean, from the sum of powers."""
    found: NDArray[Any] = (total / ranks) ** (1 / SHARP)
    return found


def _copy(holds: NDArray[Any], part: NDArray[Any], slots: int, full: int, loads: NDArray[Any]) -> Change:
    """A further copy of one of the rank's experts elsewhere: in a free slot or for a redundant copy of another expert,
    or on the least loaded rank, whose lightest expert then goes to such a slot (two fetches)."""
    import numpy as np

    number, ranks = holds.sum(axis=0), len(holds)
    redundant = np.argwhere((holds > 0) & (number > 1))
    free = np.flatnonzero(holds.sum(axis=1) < slots)
    rank, drop = np.concatenate([redundant[:, 0], free]), redundant[:, 1]
    if not len(rank):
        return NONE
    each = part / number
    change = _without(holds, part, redundant, len(free))
    least = int(loads.sum(axis=0).argmin())
    light = int(np.where(holds[least] & (number == 1), each.sum(axis=0), np.inf).argmin())
    moved = np.zeros_like(change)  # of loads, where the lightest expert of the least loaded rank goes to the slot
    moved[np.arange(len(rank)), :, rank] += each[:, light]
    moved[:, :, least] -= each[:, light]
    possible = bool(holds[least, light] and number[light] == 1 and least != full)
    before, best = _largest((loads**SHARP).sum(axis=1), ranks), NONE
    for expert in np.flatnonzero(holds[full]):
        share = part[:, expert] / (number[expert] + 1)
        base = loads - (each[:, expert] - share)[:, None] * holds[:, expert] + change
        for displaces in (False, True)[: 1 + (possible and not holds[least, expert])]:
            after = base + moved if displaces else base.copy()
            where = np.full(len(rank), least) if displaces else rank
            after[np.arange(len(rank)), :, where] += share
            gains = (before - _largest((after.clip(0.0) ** SHARP).sum(axis=2), ranks)).min(axis=1)
            gains[: len(drop)][drop == expert] = -1.0
            gains[(rank == least) if displaces else holds[rank, expert] > 0] = -1.0
            chosen = int(gains.argmax())
            if gains[chosen] / (1 + displaces) > best.gain:
                to = int(rank[chosen])
                dropped = ((to, int(drop[chosen])),) if chosen < len(drop) else ()
                new = ((least, int(expert)), (to, light)) if displaces else ((to, int(expert)),)
                gone = (*dropped, (least, light)) if displaces else dropped
                best = Change(float(gains[chosen]) / (1 + displaces), new, gone)
    return best


def _without(holds: NDArray[Any], part: NDArray[Any], redundant: NDArray[Any], free: int) -> NDArray[Any]:
    """(places × loads × ranks) what loads change by where a redundant copy goes; nothing for each free slot."""
    import numpy as np

    number = holds.sum(axis=0)
    rank, drop = redundant.T
    change = np.zeros((len(drop) + free, len(part), len(holds)))
    more = part[:, drop] / (number[drop] - 1) - part[:, drop] / number[drop]
    change[: len(drop)] = more.T[:, :, None] * holds[:, drop].T[:, None, :]
    change[np.arange(len(drop)), :, rank] -= (part[:, drop] / (number[drop] - 1)).T
    return change


def _swap(holds: NDArray[Any], part: NDArray[Any], full: int, loads: NDArray[Any]) -> Change:
    """One of the rank's experts changes places with one of another rank: two fetches."""
    import numpy as np

    ours = np.flatnonzero(holds[full])
    rank, theirs = np.argwhere((holds > 0) & (holds[full] == 0)).T
    if not len(rank):
        return NONE
    each = part / holds.sum(axis=0)
    less = each[:, ours][:, :, None] - each[:, theirs][:, None, :]
    high, low = loads[:, full][:, None, None], loads[:, rank][:, None, :]
    total = (loads**SHARP).sum(axis=1)
    moved = (high - less).clip(0.0) ** SHARP + (low + less).clip(0.0) ** SHARP - high**SHARP - low**SHARP
    after = _largest((total[:, None, None] + moved).clip(0.0), len(holds))
    gains = (_largest(total, len(holds))[:, None, None] - after).min(axis=0) / 2
    gains[holds[rank][:, ours].T > 0] = -1.0
    one, other = np.unravel_index(int(gains.argmax()), gains.shape)
    where, mine, its = int(rank[other]), int(ours[one]), int(theirs[other])
    return Change(float(gains[one, other]), ((where, mine), (int(full), its)), ((int(full), mine), (where, its)))
