"""The results of a tournament, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poise.core.version import version
from poise.experiment.tournament.contest import Contest
from poise.experiment.tournament.finals import Finals
from poise.experiment.tournament.screen import Screen, active
from poise.report.figures import Figure
from poise.report.intervals import Interval


@dataclass(slots=True)
class Outcome:
    """by: the figure that decides.  carried: for each block the setting that the reference just carries.

    runs: that a part of it has done.  screen, finals: None where the user stopped it before they were whole.
    """

    contest: Contest
    by: Figure
    carried: Sequence[float] = ()
    screen: Screen | None = None
    finals: Finals | None = None
    interrupted: bool = False
    runs: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The result JSON."""

        names = self.contest.names
        return {
            "poise": version(),
            "by": self.by.name,
            "interrupted": self.interrupted,
            "factors": {each.name: list(each.levels) for each in self.contest.factors},
            "loads": list(self.contest.at),
            "carried": dict(zip(names, self.carried, strict=False)),
            "screen": None if self.screen is None else self._screen(self.screen),
            "finals": None if self.finals is None else self._finals(self.finals),
        }

    def _screen(self, screen: Screen) -> dict[str, Any]:
        factors = self.contest.factors
        return {
            "runs": screen.runs,
            "lacking": screen.lacking,
            "imbalance": screen.imbalance,
            "effects": self._effects(screen),
            "shares": {
                " × ".join(factors[at].name for at in term): share for term, share in screen.whole.shares.items()
            },
            "interactions": [
                {
                    "factors": [factors[at].name for at in term],
                    "levels": [factors[term[0]].levels[one], factors[term[1]].levels[two]],
                    **_interval(screen.whole.joint(term, one, two)),
                }
                for term, one, two in screen.pairs
            ],
            "active": [factors[at].name for at in active(screen, factors)],
        }

    def _effects(self, screen: Screen) -> dict[str, Any]:
        """Each level against the reference: on average, alone, and alone in each part of the blocks."""
        fields: dict[str, Any] = {}
        for at, factor in enumerate(self.contest.factors):
            fields[factor.name] = {
                level: _interval(screen.whole.against(at, number))
                | ({"alone": _interval(screen.alone[at, number])} if number else {})
                | ({name: _interval(part[at, number]) for name, part in screen.parts.items()} if number else {})
                for number, level in enumerate(factor.levels)
            }
        return fields

    def _finals(self, finals: Finals) -> dict[str, Any]:
        return {
            "together": finals.together(),
            "standings": [
                {
                    "name": each.name,
                    "levels": {
                        factor.name: factor.levels[level]
                        for factor, level in zip(self.contest.factors, each.levels, strict=True)
                    },
                    "mean": each.mean,
                    "to_best": _interval(each.to_best),
                    "to_reference": _interval(each.to_reference),
                    "better": each.better,
                    "worse": each.worse,
                    "cells": each.cells,
                }
                for each in finals.standings()
            ],
            "blocks": finals.by_block(),
        }


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "half": found.half}
