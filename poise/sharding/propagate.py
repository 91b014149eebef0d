"""From the signatures of some tensors to those of all (GSPMD: Xu et al., arXiv 2105.04663, section 3.5).

A tensor that is split hands that on to all tensors with the same letter, in both directions, until nothing changes:
first along operations on entries, whose tensors should agree, then along products and look-ups. Where tensors of one
operation disagree, an annotated one wins, then the first. What nothing reaches is broadcast. Sums are added up where
they arise, but for sums of sums, which are added up once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from poise.core.errors import UserError
from poise.sharding.graph import Graph, Op, Words
from poise.sharding.plan import Plan, greedy
from poise.sharding.rules import splits
from poise.sharding.signature import Mesh, Signature, broadcast, check

_FIRST = frozenset({"add", "each", "norm", "softmax"})
"""Kinds along which signatures spread before they do along others."""

Found = dict[str, Signature]


def propagate(graph: Graph, mesh: Mesh, annotated: Mapping[str, Signature]) -> Plan:
    """The plan of a graph in which some tensors are annotated. UserError for what is not in it or does not divide."""
    for name, each in annotated.items():
        if name not in graph.shapes:
            raise UserError(f"{name}: the graph has no such tensor; annotate one of {', '.join(graph.shapes)}")
        check(each, graph.shapes[name], mesh, name)
    found = dict(annotated)
    for axis in mesh:
        while _spread(graph, mesh, axis, found, annotated.keys()):
            pass
    for axis in mesh:
        _sums(graph, axis, found, annotated)
    kept = {name: found.get(name, broadcast(len(shape))) for name, shape in graph.shapes.items()}
    return greedy(graph, mesh, kept)


def _spread(graph: Graph, mesh: Mesh, axis: str, found: Found, fixed: Collection[str]) -> bool:
    """One change along an axis, by the first operation that has one; False where none has."""
    first = [op for op in graph.ops if op.kind in _FIRST]
    rest = [op for op in graph.ops if op.kind not in _FIRST]
    return any(_pass(graph, mesh, axis, found, fixed, op) for op in (*first, *first[::-1], *rest, *rest[::-1]))


def _pass(graph: Graph, mesh: Mesh, axis: str, found: Found, fixed: Collection[str], op: Op) -> bool:
    """Whether an operation has split a tensor along an axis that was not, by a letter of another one."""
    tensors = [*zip(op.inputs, op.words, strict=True), (op.output, op.made)]
    ordered = sorted(tensors, key=lambda each: each[0] not in fixed)
    letters = dict.fromkeys(_letter(words, found.get(name), axis) for name, words in ordered)
    return any(
        _hand_on(mesh, axis, found, name, words, letter, dict(op.sizes)[letter])
        for letter in letters if letter is not None and splits(op, letter, mesh[axis])
        for name, words in tensors if name not in fixed
    )  # fmt: skip


def _hand_on(mesh: Mesh, axis: str, found: Found, name: str, words: Words, letter: str, size: int) -> bool:
    """Whether a tensor that has the letter, and was not split along the axis, is now."""
    dim = next((at for at, word in enumerate(words) if word[0] == letter), None)
    known = found.get(name, broadcast(len(words)))
    if dim is None or known.place(axis) != "B":
        return False
    after = known.split(axis, dim)
    if size % prod(mesh[each] for each in after.dims[dim]):
        return False
    found[name] = after
    return True


def _letter(words: Words, known: Signature | None, axis: str) -> str | None:
    place = known.place(axis) if known is not None else "B"
    return words[int(place[1:])][0] if place[0] == "S" else None


def _sums(graph: Graph, axis: str, found: Found, fixed: Mapping[str, Signature]) -> None:
    """Leave partial sums as they are where all that reads them is an addition of such sums."""
    readers: dict[str, int] = {}
    for op in graph.ops:
        for name in op.inputs:
            readers[name] = readers.get(name, 0) + 1
    open_: set[str] = set()
    for op in graph.ops:
        free = op.output not in fixed and found.get(op.output, broadcast(len(op.made))).place(axis) == "B"
        letters = {_letter(words, found.get(name), axis) for name, words in zip(op.inputs, op.words, strict=True)}
        lost = any(each and all(each not in word for word in op.made) for each in letters)
        summed = op.kind == "add" and all(name in open_ and readers[name] == 1 for name in op.inputs)
        if summed:
            for name in op.inputs:
                found[name] = found.get(name, broadcast(len(op.made))).summed(axis)
        if free and (lost or summed):
            open_.add(op.output)
