"""The numeric reference: devices with arrays of their own, collectives that copy between them and count bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from poise.sharding import Mesh, Move, Op, Plan, Signature

Array = Any
Device = tuple[int, ...]
"""Its place along each axis."""
Parts = dict[Device, Array]

_DRAW = np.random.default_rng(5)


def devices(on: Mesh) -> list[Device]:
    return list(product(*(range(size) for _, size in on.axes)))


def part(x: Array, signature: Signature, on: Mesh, at: Device) -> Array:
    """A device's part, without sums."""
    place = dict(zip(on, at, strict=True))
    for dim, axes in enumerate(signature.dims):
        for axis in axes:
            x = np.split(x, on[axis], axis=dim)[place[axis]]
    return x


def shard(x: Array, signature: Signature, on: Mesh) -> Parts:
    """The parts of an array; sums are drawn at random."""
    if not signature.partial:
        return {at: part(x, signature, on, at).copy() for at in devices(on)}
    axis = min(signature.partial)
    terms = [_DRAW.normal(size=x.shape) for _ in range(on[axis] - 1)]
    terms.append(x - sum(terms))
    less = Signature(signature.dims, signature.partial - {axis})
    found = [shard(each, less, on) for each in terms]
    return {at: found[at[list(on).index(axis)]][at] for at in devices(on)}


def whole(parts: Parts, signature: Signature, shape: tuple[int, ...], on: Mesh) -> Array:
    """The array again; devices that should have the same must have it."""
    names = list(on)
    found = np.full(shape, np.nan)
    index = np.arange(prod(shape)).reshape(shape)
    groups: dict[tuple[int, ...], dict[Device, Array]] = {}
    for at, own in parts.items():
        key = tuple(place for name, place in zip(names, at, strict=True) if name not in signature.partial)
        groups.setdefault(key, {})[at] = own
    for members in groups.values():
        at = next(iter(members))
        total = np.sum(list(members.values()), axis=0)
        flat = part(index, signature, on, at)
        before = found.flat[flat.ravel()]
        assert np.all(np.isnan(before) | np.isclose(before, total.ravel(), atol=1e-9)), "devices differ"
        found.flat[flat.ravel()] = total.ravel()
    return found


class Wire:
    """Counts entries that one device takes from another."""

    def __init__(self, on: Mesh) -> None:
        self.on, self.sent = on, 0

    def move(self, move: Move, parts: Parts) -> Parts:
        """Do a collective, in every group of devices along its axis."""
        found: Parts = {}
        along = list(self.on).index(move.axis)
        for at in devices(self.on):
            if at[along] == 0:
                group = [(*at[:along], place, *at[along + 1 :]) for place in range(self.on[move.axis])]
                rows = _RUN[move.collective](self, [parts[each] for each in group], move)
                found |= dict(zip(group, rows, strict=True))
        return found

    def take(self, source: int, target: int, cut: Array) -> Array:
        if source != target:
            self.sent += cut.size
        return cut.copy()

    def gather(self, rows: list[Array], move: Move) -> list[Array]:
        dim = _dim(move.before, move.axis)
        count = range(len(rows))
        return [np.concatenate([self.take(s, t, rows[s]) for s in count], dim) for t in count]

    def scatter(self, rows: list[Array], move: Move) -> list[Array]:
        return self.ring([np.split(row, len(rows), _dim(move.after, move.axis)) for row in rows])

    def reduce(self, rows: list[Array], move: Move) -> list[Array]:
        """Reduce-scatter and all-gather of the flat array, in parts that may be unequal."""
        p, shape = len(rows), rows[0].shape
        totals = self.ring([np.array_split(row.ravel(), p) for row in rows])
        return [np.concatenate([self.take(s, t, totals[s]) for s in range(p)]).reshape(shape) for t in range(p)]

    def ring(self, cuts: list[list[Array]]) -> list[Array]:
        """Each part goes round, and each device adds its own term."""
        found, p = [], len(cuts)
        for target in range(p):
            total = cuts[(target + 1) % p][target]
            for step in range(2, p + 1):
                at = (target + step) % p
                total = self.take(at - 1, at, total) + cuts[at][target]
            found.append(total)
        return found

    def exchange(self, rows: list[Array], move: Move) -> list[Array]:
        before, after, p = _dim(move.before, move.axis), _dim(move.after, move.axis), len(rows)
        cuts = [np.split(row, p, after) for row in rows]
        return [np.concatenate([self.take(s, t, cuts[s][t]) for s in range(p)], before) for t in range(p)]

    def slice(self, rows: list[Array], move: Move) -> list[Array]:
        dim = _dim(move.after, move.axis)
        return [np.split(row, len(rows), dim)[at] for at, row in enumerate(rows)]

    def zeros(self, rows: list[Array], move: Move) -> list[Array]:
        if move.before.place(move.axis) == "B":
            return [row if at == 0 else np.zeros_like(row) for at, row in enumerate(rows)]
        dim = _dim(move.before, move.axis)
        blank = [np.zeros_like(row) for row in rows]
        return [np.concatenate([*blank[:at], row, *blank[at + 1 :]], dim) for at, row in enumerate(rows)]


_RUN: dict[str, Callable[[Wire, list[Array], Move], list[Array]]] = {
    "all-gather": Wire.gather, "reduce-scatter": Wire.scatter, "all-reduce": Wire.reduce,
    "all-to-all": Wire.exchange, "slice": Wire.slice, "zeros": Wire.zeros,
}  # fmt: skip


def _dim(signature: Signature, axis: str) -> int:
    return int(signature.place(axis)[1:])


def compute(op: Op, inputs: list[Array], first: int = 0) -> Array:
    """An operation on arrays, whole or parts; `first`: the number of the first row of an embedding's table."""
    if op.kind == "add":
        return sum(inputs)
    if op.kind == "each":
        return np.tanh(sum(inputs)) + inputs[0]
    if op.kind == "softmax":
        raised = np.exp(inputs[0])
        return raised / raised.sum(-1, keepdims=True)
    if op.kind == "norm":
        x, scale = inputs
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale
    if op.kind == "embedding":
        tokens, table = inputs
        rows = tokens.astype(int) - first
        here = (rows >= 0) & (rows < len(table))
        return np.where(here[..., None], table[np.where(here, rows, 0)], 0.0)
    return _einsum(op, inputs)


def _einsum(op: Op, inputs: list[Array]) -> Array:
    sizes = dict(op.sizes)
    for words, x in zip(op.words, inputs, strict=True):  # a part of a merged dimension has fewer of its first letter
        for word, size in zip(words, x.shape, strict=True):
            sizes[word[0]] = size // prod(sizes[letter] for letter in word[1:])
    spread = [x.reshape([sizes[e] for word in words for e in word]) for words, x in zip(op.words, inputs, strict=True)]
    missing = [each for word in op.made for each in word if all(each not in "".join(words) for words in op.words)]
    assert not missing, "a letter of the output alone"
    equation = ",".join("".join(words) for words in op.words) + "->" + "".join(op.made)
    return np.einsum(equation, *spread).reshape([prod(sizes[e] for e in word) for word in op.made])


def run(plan: Plan, given: dict[str, Array]) -> tuple[dict[str, Array], int]:
    """The graph on devices by its plan: all tensors, put together again, and the bytes that were sent."""
    on, wire = plan.mesh, Wire(plan.mesh)
    there = {name: {plan.kept[name]: shard(x, plan.kept[name], on)} for name, x in given.items()}
    moves = {(name, op): each for name, op, each in plan.moves}
    for op in plan.graph.ops:
        rule = plan.rules[op.output]
        for name, wanted in zip(op.inputs, rule.inputs, strict=True):
            if wanted not in there[name]:
                there[name][wanted] = _moved(wire, there[name], moves[name, op.output])
        made = {at: _local(op, rule.inputs, there, at, on) for at in devices(on)}
        kept = {rule.output: made}
        if (op.output, op.output) in moves:
            kept = {plan.kept[op.output]: _moved(wire, kept, moves[op.output, op.output])}
        there[op.output] = kept
    shapes = plan.graph.shapes
    found = {name: whole(each[plan.kept[name]], plan.kept[name], shapes[name], on) for name, each in there.items()}
    return found, wire.sent * plan.graph.itemsize


def _moved(wire: Wire, there: dict[Signature, Parts], moves: tuple[Move, ...]) -> Parts:
    parts = there[moves[0].before]
    for move in moves:
        parts = wire.move(move, parts)
    return parts


def _local(op: Op, wanted: tuple[Signature, ...], there: dict[str, Any], at: Device, on: Mesh) -> Array:
    inputs = [there[name][each][at] for name, each in zip(op.inputs, wanted, strict=True)]
    first = 0
    if op.kind == "embedding":
        rows = np.arange(dict(op.sizes)["v"])
        first = int(part(rows, Signature(wanted[1].dims[:1]), on, at)[0])
    return compute(op, inputs, first)


def alone(plan: Plan, given: dict[str, Array]) -> dict[str, Array]:
    """The graph in one piece."""
    found = dict(given)
    for op in plan.graph.ops:
        found[op.output] = compute(op, [found[name] for name in op.inputs])
    return found


def draw(plan: Plan) -> dict[str, Array]:
    """Values of the given tensors; tokens are those that an embedding reads."""
    tokens = {op.inputs[0]: dict(op.sizes)["v"] for op in plan.graph.ops if op.kind == "embedding"}
    return {name: _values(plan.graph.shapes[name], tokens.get(name)) for name in plan.graph.given}


def _values(shape: tuple[int, ...], rows: int | None) -> Array:
    draw_ = np.random.default_rng(sum(shape))
    return draw_.integers(0, rows, size=shape) if rows else draw_.normal(size=shape)
