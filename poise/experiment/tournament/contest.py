"""The question of a tournament, for any world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poise.experiment.tournament.factor import Combination, Factor


@dataclass(frozen=True, slots=True)
class Contest:
    """blocks: the conditions, each by one name of every kind of them.  at: factors on the setting that the reference
    of a block just carries.  runs: short ones, in all.  seed: of their selection and of themselves."""

    factors: tuple[Factor, ...]
    blocks: tuple[tuple[str, ...], ...]
    at: tuple[float, ...]
    runs: int
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """The blocks, as in code / llama / equal."""
        return [" / ".join(each) for each in self.blocks]

    @property
    def parts(self) -> list[str]:
        """The names of the first kind of conditions."""
        return list(dict.fromkeys(each[0] for each in self.blocks))


class Trial(NamedTuple):
    """One run: a combination in a block (by number) at a setting."""

    block: int
    at: float
    seed: int
    levels: Combination
