"""How a tensor lies on a mesh of devices: along each axis of the mesh it is split, broadcast, or a partial sum.

These are OneFlow's signatures S(i), B and P (Yuan et al., arXiv 2110.15032), and GSPMD's shardings (Xu et al.,
arXiv 2105.04663) with their partial type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from poise.core.errors import UserError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Mesh:
    """A grid of devices: for each axis its name and how many devices lie along it."""

    axes: tuple[tuple[str, int], ...]

    def __getitem__(self, axis: str) -> int:
        return dict(self.axes)[axis]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.axes)

    @property
    def devices(self) -> int:
        """How many there are."""
        return prod(size for _, size in self.axes)


def mesh(**sizes: int) -> Mesh:
    """A mesh by the sizes of its axes, as `mesh(data=2, model=4)`."""
    for name, size in sizes.items():
        if size < 1:
            raise UserError(f"mesh: the axis {name} has {size} devices; give at least 1")
    return Mesh(tuple(sizes.items()))


@dataclass(frozen=True)
class Signature:
    """Where a tensor is split, and over which axes it is a sum. Along all other axes each device has the same.

    dims: for each dimension the axes that split it, outermost first. partial: the axes along which parts are to be
    added.
    """

    dims: tuple[tuple[str, ...], ...]
    partial: frozenset[str] = frozenset()

    def place(self, axis: str) -> str:
        """S0, S1, …, B or P along an axis."""
        if axis in self.partial:
            return "P"
        return next((f"S{dim}" for dim, axes in enumerate(self.dims) if axis in axes), "B")

    def text(self, on: Mesh) -> str:
        """For each axis its letter, as `S0 B`."""
        return " ".join(self.place(axis) for axis in on)

    def ways(self, on: Mesh) -> int:
        """Into how many different parts it is split."""
        return prod(on[axis] for axes in self.dims for axis in axes)

    def fits(self, shape: Shape, on: Mesh) -> bool:
        """Whether every dimension divides into its parts."""
        return all(size % prod(on[axis] for axis in axes) == 0 for size, axes in zip(shape, self.dims, strict=True))

    def local(self, shape: Shape, on: Mesh) -> Shape:
        """The shape of a device's part."""
        return tuple(size // prod(on[axis] for axis in axes) for size, axes in zip(shape, self.dims, strict=True))

    def without(self, axis: str) -> Signature:
        """Broadcast along an axis."""
        dims = tuple(tuple(each for each in axes if each != axis) for axes in self.dims)
        return Signature(dims, self.partial - {axis})

    def split(self, axis: str, dim: int) -> Signature:
        """Split along an axis too, inside the parts that there are."""
        dims = tuple((*axes, axis) if at == dim else axes for at, axes in enumerate(self.dims))
        return Signature(dims, self.partial)

    def summed(self, axis: str) -> Signature:
        """A partial sum along an axis too."""
        return Signature(self.dims, self.partial | {axis})


def broadcast(dimensions: int) -> Signature:
    """The same on all devices."""
    return Signature(((),) * dimensions)


def read(text: str, shape: Shape, on: Mesh) -> Signature:
    """A signature from S0, S1, …, B or P for each axis, as `S0 B`. UserError for what a shape cannot be."""
    words = text.split()
    if len(words) != len(on.axes):
        raise UserError(
            f"signature {text!r}: has {len(words)} words, the mesh {len(on.axes)} axes; give S0, S1, …, B or P for each"
        )
    found = broadcast(len(shape))
    for axis, word in zip(on, words, strict=True):
        if word == "P":
            found = found.summed(axis)
        elif word[:1] == "S" and word[1:].isdigit() and int(word[1:]) < len(shape):
            found = found.split(axis, int(word[1:]))
        elif word != "B":
            raise UserError(
                f"signature {text!r}: {word} is none of a tensor with {len(shape)} dimensions; "
                f"give {', '.join([f'S{at}' for at in range(len(shape))])}, B or P"
            )
    check(found, shape, on, f"signature {text!r}")
    return found


def check(found: Signature, shape: Shape, on: Mesh, what: str) -> None:
    """UserError where a dimension does not divide into its parts."""
    for dim, (size, axes) in enumerate(zip(shape, found.dims, strict=True)):
        parts = prod(on[axis] for axis in axes)
        if size % parts:
            raise UserError(
                f"{what}: dimension {dim} of {list(shape)} does not divide into {parts} parts; give B for it"
            )


def every(shape: Shape, on: Mesh, *, partial: bool = False) -> Sequence[Signature]:
    """All signatures that a tensor of this shape can have, nested in the mesh's order; `partial`: sums as well."""
    found = [broadcast(len(shape))]
    for axis in on:
        more = [each.split(axis, dim) for each in found for dim in range(len(shape))]
        more += [each.summed(axis) for each in found] if partial else []
        found += [each for each in more if each.fits(shape, on)]
    return found
