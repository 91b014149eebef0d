"""Packing of experts: items into packs of equal number, largest first, all layers at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(weights: NDArray[Any], packs: int) -> NDArray[Any]:
    """(rows × items) the pack of each item: largest first, each into the lightest pack that has room.

    A pack takes items / packs of a row's items, rounded up.
    """
    rows, items = weights.shape
    room = -(-items // packs)
    order = np.argsort(-weights, axis=1, kind="stable")
    at = np.arange(rows)
    load, count = np.zeros((rows, packs)), np.zeros((rows, packs), dtype=np.int64)
    found = np.empty((rows, items), dtype=np.int64)
    for place in range(items):
        item = order[:, place]
        chosen = np.where(count < room, load, np.inf).argmin(axis=1)
        found[at, item] = chosen
        load[at, chosen] += weights[at, item]
        count[at, chosen] += 1
    return found


def pack_apart(weights: NDArray[Any], names: NDArray[Any], packs: int) -> NDArray[Any]:
    """As `pack`, but items of one name go to packs that do not have it yet, where one with room is left.

    names: (rows × items) whole numbers from 0.
    """
    rows, items = weights.shape
    room = -(-items // packs)
    order = np.argsort(-weights, axis=1, kind="stable")
    at = np.arange(rows)
    load, count = np.zeros((rows, packs)), np.zeros((rows, packs), dtype=np.int64)
    has = np.zeros((rows, packs, int(names.max()) + 1), dtype=bool)
    found = np.empty((rows, items), dtype=np.int64)
    beyond = weights.sum(axis=1, keepdims=True) + 1.0
    for place in range(items):
        item = order[:, place]
        name = names[at, item]
        seen = has[at, :, name]
        chosen = np.where(count < room, load + seen * beyond, np.inf).argmin(axis=1)
        found[at, item] = chosen
        load[at, chosen] += weights[at, item]
        count[at, chosen] += 1
        has[at, chosen, name] = True
    return found


def spread_names(counts: NDArray[Any]) -> NDArray[Any]:
    """(rows × slots) the expert of each copy, in order, from (rows × experts) copies; rows have equally many."""
    rows, experts = counts.shape
    found: NDArray[Any] = np.repeat(np.tile(np.arange(experts), rows), counts.ravel()).reshape(rows, -1)
    return found


def holding(names: NDArray[Any], packs: NDArray[Any], ranks: int, experts: int) -> NDArray[Any]:
    """(rows × ranks × experts) copies, from the expert and the rank of each."""
    found = np.zeros((len(names), ranks, experts), dtype=np.int16)
    np.add.at(found, (np.arange(len(names))[:, None], packs, names), 1)
    return found
