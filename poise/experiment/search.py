"""Searches for the number up to which something holds, by doubling and then by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from poise.experiment.case import Key
from poise.experiment.comparison import Compared

CLOSE = 1.02
"""Two numbers between which the threshold lies are close enough when they differ by at most this factor."""

FAR = 1024.0
"""Largest factor from 1 that is searched."""


class Tried(Protocol):
    """The result at one number."""

    @property
    def at(self) -> float:
        """The number."""

    @property
    def why(self) -> str:
        """What broke down there, empty where it held."""

    @property
    def sure(self) -> bool:
        """Whether that is significant."""


Probe = TypeVar("Probe", bound=Tried)


@dataclass(frozen=True, slots=True)
class Threshold(Generic[Probe]):
    """The results, in order of their numbers; every number below the threshold holds."""

    probes: tuple[Probe, ...]

    @property
    def beyond(self) -> Probe | None:
        """The lowest number that broke down."""
        return next((probe for probe in self.probes if probe.why), None)

    @property
    def carried(self) -> Probe | None:
        """The highest number that held below the first that did not."""
        return self._below(sure=False)

    def _below(self, *, sure: bool) -> Probe | None:
        beyond = self.beyond
        below = [each for each in self.probes if beyond is None or each.at < beyond.at]
        return next((each for each in reversed(below) if each.sure or not sure), None)

    @property
    def range(self) -> tuple[float | None, float | None]:
        """The certain bracket of the threshold: one number that holds and one that significantly does not."""
        low, high = self._below(sure=True), next((each for each in self.probes if each.why and each.sure), None)
        return (low.at if low else None), (high.at if high else None)

    @property
    def at(self) -> float | None:
        """The threshold: in the middle, by factor, of the last number that held and the first that did not."""
        low, high = self.carried, self.beyond
        return (low.at * high.at) ** 0.5 if low and high else None

    def next_at(self) -> float | None:
        """The number to try next; None when the threshold is found, or nowhere near."""
        low, high = self.carried, self.beyond
        if low is None or high is None:
            end = 2 * low.at if low else (high.at / 2 if high else 1.0)
            return rounded(end) if 1 / FAR <= end <= FAR else None
        if high.at / low.at <= CLOSE:
            return None
        middle = rounded((low.at * high.at) ** 0.5)
        return middle if low.at < middle < high.at else None


def rounded(number: float) -> float:
    """A number to four significant digits, so that it can be written and read back."""
    return float(f"{number:.4g}")


def tried(compared: Compared[Any, Any], probe: Callable[[str, float], Probe | None]) -> dict[str, tuple[Probe, ...]]:
    """The results of every setting for each case, in order, where all of its seeds are done."""
    settings = sorted({key[0] for key in compared.cells})
    found = {}
    for case in compared.study.names:
        whole = [at for at in settings if len(compared.of(case, at)) == len(compared.study.seeds)]
        probes = [probe(case, at) for at in whole]
        if known := [each for each in probes if each is not None]:
            found[case] = tuple(known)
    return found


def next_keys(compared: Compared[Any, Any], thresholds: Mapping[str, Threshold[Probe]]) -> list[Key]:
    """The cells to do next in search of the threshold of every case."""
    wanted = {case: each.next_at() for case, each in thresholds.items()}
    return [
        (at, case, seed)
        for at in sorted({at for at in wanted.values() if at is not None})
        for seed in compared.study.seeds
        for case, own in wanted.items()
        if own == at and (at, case, seed) not in compared.cells
    ]
