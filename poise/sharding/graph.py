"""A graph of operations on tensors, each described by which dimensions of its tensors are the same.

An equation has a word for each dimension, of one letter, or of several where dimensions are merged, outermost first:
`b s h, h f -> b s f` is a linear layer, `b s nd -> b s n d` the heads of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from poise.core.errors import UserError
from poise.sharding.signature import Shape

Words = tuple[str, ...]
"""The dimensions of a tensor."""


@dataclass(frozen=True)
class Op:
    """An operation. `kind` says what it computes: einsum, add, embedding, or any function of what is not split.

    whole: letters that no device may have a part of, as the dimension of a softmax. linear: the sets of inputs in which
    the output is linear: where these are partial sums and the others are broadcast, the output is a partial sum.
    """

    kind: str
    inputs: tuple[str, ...]
    output: str
    words: tuple[Words, ...]
    """Of the inputs."""
    made: Words
    """Of the output."""
    sizes: tuple[tuple[str, int], ...]
    whole: frozenset[str] = frozenset()
    linear: tuple[frozenset[int], ...] = ()

    @property
    def letters(self) -> list[str]:
        """All of them."""
        return [letter for letter, _ in self.sizes]

    @property
    def work(self) -> int:
        """How many combinations of indices it goes through: multiply-adds of an einsum."""
        return prod(size for _, size in self.sizes)


@dataclass
class Graph:
    """Tensors by name and operations in order. Each method adds one, and returns the name of its output."""

    itemsize: int = 4
    """Bytes of an entry."""
    shapes: dict[str, Shape] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def input(self, name: str, *shape: int) -> str:
        """A tensor that is given: data or a weight."""
        return self._name(name, shape)

    def einsum(self, name: str, equation: str, *inputs: str, **sizes: int) -> str:
        """The sum of products over all letters that the output lacks; a transposition or reshape with one input."""
        linear = tuple(frozenset({at}) for at in range(len(inputs)))
        return self.add_op("einsum", name, equation, inputs, linear=linear, sizes=sizes)

    def add(self, name: str, *inputs: str) -> str:
        """The sum of tensors of one shape."""
        word = " ".join(_alphabet(len(self.shapes[inputs[0]])))
        equation = f"{', '.join([word] * len(inputs))} -> {word}"
        return self.add_op("add", name, equation, inputs, linear=(frozenset(range(len(inputs))),))

    def each(self, name: str, *inputs: str) -> str:
        """A function of the entries at one place of tensors of one shape, as an activation."""
        word = " ".join(_alphabet(len(self.shapes[inputs[0]])))
        return self.add_op("each", name, f"{', '.join([word] * len(inputs))} -> {word}", inputs)

    def softmax(self, name: str, x: str) -> str:
        """Over the last dimension."""
        return self._over_last("softmax", name, x)

    def norm(self, name: str, x: str, scale: str) -> str:
        """Root mean square or layer norm over the last dimension, times `scale`."""
        return self._over_last("norm", name, x, scale)

    def embedding(self, name: str, tokens: str, table: str) -> str:
        """Rows of `table` by number. Devices with a part of the rows find zeros for the others."""
        found = " ".join(_alphabet(len(self.shapes[tokens])))
        equation = f"{found}, v h -> {found} h"
        return self.add_op("embedding", name, equation, (tokens, table), linear=(frozenset({1}),))

    def add_op(
        self, kind: str, name: str, equation: str, inputs: tuple[str, ...], *, whole: str = "",
        linear: tuple[frozenset[int], ...] = (), sizes: dict[str, int] | None = None,
    ) -> str:  # fmt: skip
        """An operation by its equation. `sizes`: of letters that stand in merged dimensions alone."""
        left, _, right = equation.partition("->")
        words = tuple(tuple(each.split()) for each in left.split(","))
        known = dict(sizes or {})
        for given, shape in zip(words, (self.shapes[each] for each in inputs), strict=True):
            _learn(known, given, shape, equation)
        made = tuple(right.split())
        letters = dict.fromkeys("".join(map("".join, (*words, made))))
        unknown = [letter for letter in letters if letter not in known]
        if unknown:
            raise UserError(f"{equation}: the size of {unknown[0]} is not known; give {unknown[0]}=")
        for given, each in zip(words, inputs, strict=True):
            if self.shapes[each] != (shape := _shape(given, known)):
                raise UserError(f"{equation}: {each} is {list(self.shapes[each])}, not {list(shape)}; give that size")
        found = tuple((letter, known[letter]) for letter in letters)
        self.ops.append(Op(kind, tuple(inputs), name, words, made, found, frozenset(whole), linear))
        return self._name(name, _shape(made, known))

    @property
    def given(self) -> list[str]:
        """The tensors that no operation makes."""
        made = {op.output for op in self.ops}
        return [name for name in self.shapes if name not in made]

    def _over_last(self, kind: str, name: str, x: str, *more: str) -> str:
        letters = _alphabet(len(self.shapes[x]))
        words = [" ".join(letters), *[letters[-1]] * len(more)]
        return self.add_op(kind, name, f"{', '.join(words)} -> {words[0]}", (x, *more), whole=letters[-1])

    def _name(self, name: str, shape: Shape) -> str:
        if name in self.shapes:
            raise UserError(f"{name}: two tensors of the graph have this name; give another one")
        self.shapes[name] = shape
        return name


def _learn(known: dict[str, int], words: Words, shape: Shape, equation: str) -> None:
    """The sizes of letters that stand alone, or beside others that are known."""
    if len(words) != len(shape):
        raise UserError(
            f"{equation}: {' '.join(words)} has {len(words)} dimensions, the tensor {len(shape)}; give as many"
        )
    for word, size in zip(words, shape, strict=True):
        unknown = [letter for letter in word if letter not in known]
        if len(unknown) == 1:
            known[unknown[0]] = size // prod(known[letter] for letter in word if letter in known)


def _shape(words: Words, sizes: dict[str, int]) -> Shape:
    return tuple(prod(sizes[letter] for letter in word) for word in words)


def _alphabet(count: int) -> str:
    return "abcdefg"[:count]
