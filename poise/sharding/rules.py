"""The signatures with which an operation can run on each device alone, derived from its equation.

Along each axis of the mesh either nothing is split, or one letter is: all tensors that have it are split there, and
where the output lacks it, it is a partial sum; or, in a linear operation, some inputs are partial sums, and so is the
output.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import NamedTuple

from poise.sharding.graph import Op, Words
from poise.sharding.signature import Mesh, Signature

Choice = str | int | None
"""Along one axis: the letter that is split, the number of the set of inputs that are sums, or nothing."""


class Rule(NamedTuple):
    """What the inputs must be, what the output then is, and how many devices share the work."""

    inputs: tuple[Signature, ...]
    output: Signature
    ways: int


@lru_cache(maxsize=1024)
def rules(op: Op, on: Mesh) -> tuple[Rule, ...]:
    """All of them, each once."""
    options: list[list[Choice]] = [
        [None, *(letter for letter in op.letters if splits(op, letter, on[axis])), *range(len(op.linear))]
        for axis in on
    ]
    found: dict[Rule, None] = {}
    for chosen in product(*options):
        for split in _orders(dict(zip(on, chosen, strict=True))):
            if all(dict(op.sizes)[letter] % prod(on[axis] for axis in axes) == 0 for letter, axes in split.items()):
                found[_rule(op, split, dict(zip(on, chosen, strict=True)), on)] = None
    return tuple(found)


def splits(op: Op, letter: str, parts: int) -> bool:
    """Whether devices can have parts of this letter: it is first wherever it stands, and divides."""
    words = [word for each in (*op.words, op.made) for word in each if letter in word]
    return letter not in op.whole and all(word[0] == letter for word in words) and dict(op.sizes)[letter] % parts == 0


def _orders(chosen: dict[str, Choice]) -> Iterator[dict[str, tuple[str, ...]]]:
    """For each letter the axes that split it, in every order of nesting."""
    by: dict[str, list[str]] = {}
    for axis, choice in chosen.items():
        if isinstance(choice, str):
            by.setdefault(choice, []).append(axis)
    for orders in product(*(permutations(axes) for axes in by.values())):
        yield dict(zip(by, orders, strict=True))


def _rule(op: Op, split: dict[str, tuple[str, ...]], chosen: dict[str, Choice], on: Mesh) -> Rule:
    sums = {axis: op.linear[choice] for axis, choice in chosen.items() if isinstance(choice, int)}
    present = {letter for word in op.made for letter in word}
    missing = {axis for letter, axes in split.items() if letter not in present for axis in axes}
    inputs = tuple(
        _signature(words, split, frozenset(axis for axis, members in sums.items() if at in members))
        for at, words in enumerate(op.words)
    )
    output = _signature(op.made, split, frozenset(missing | sums.keys()))
    return Rule(inputs, output, prod(on[axis] for axes in split.values() for axis in axes))


def _signature(words: Words, split: dict[str, tuple[str, ...]], partial: frozenset[str]) -> Signature:
    return Signature(tuple(split.get(word[0], ()) for word in words), partial)
