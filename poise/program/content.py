"""What a value contains, in symbols: which samples have passed what, with which factor."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

Atom = tuple[Hashable, ...]
"""One thing that a value may contain, such as (parameter, stage, sample) of a gradient."""

Atoms = Mapping[Atom, Fraction | int]
"""Things with their factors: a gradient is the sum of factor × gradient of the sample's loss."""


class Content(NamedTuple):
    """A sum of atoms, or the part `part[0]` of `part[1]` equal ones of it, as sharded values are."""

    atoms: Atoms
    part: tuple[int, int] = (0, 1)

    @classmethod
    def of(cls, *atom: Hashable) -> Content:
        """One atom with factor 1."""
        return cls({atom: 1})

    def times(self, factor: Fraction | int) -> Content:
        """The same with all factors multiplied."""
        return Content({atom: each * factor for atom, each in self.atoms.items()}, self.part)

    def plus(self, other: Atoms) -> Content:
        """The sum with other atoms; those whose factors cancel are gone."""
        found = dict(self.atoms)
        for atom, factor in other.items():
            total = found.get(atom, 0) + factor
            if total:
                found[atom] = total
            else:
                found.pop(atom, None)
        return Content(found, self.part)

    @property
    def only(self) -> Atom | None:
        """The atom of a content that is one atom with factor 1, else None."""
        if len(self.atoms) != 1:
            return None
        atom, factor = next(iter(self.atoms.items()))
        return atom if factor == 1 else None


EMPTY = Content({})


def summed(contents: Iterable[Content]) -> Content:
    """The sum of several contents of one part."""
    found: dict[Atom, Fraction | int] = {}
    part = (0, 1)
    for each in contents:
        part = each.part
        for atom, factor in each.atoms.items():
            found[atom] = found.get(atom, 0) + factor
    return Content({atom: factor for atom, factor in found.items() if factor}, part)


def difference(found: Atoms, wanted: Atoms) -> str:
    """The first atom in which two sums differ, in words; empty where they are equal."""
    for atom in sorted({*found, *wanted}, key=str):
        has, needs = found.get(atom, 0), wanted.get(atom, 0)
        if has == needs:
            continue
        name = written(atom)
        if not has:
            return f"{name} is missing"
        if not needs:
            return f"{name} does not belong there"
        return f"{name} has the factor {has} instead of {needs}"
    return ""


def written(atom: Atom) -> str:
    """An atom in words: `w3 by stage 3 of sample 2`, or its parts."""
    if len(atom) == 3 and isinstance(atom[0], str) and atom[0].startswith(("w", "out", "tied")) and atom[0] != "w":
        return f"the gradient of {atom[0]} by stage {atom[1]} of sample {atom[2]}"
    return " ".join(map(str, atom))
