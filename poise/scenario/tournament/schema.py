"""The tournament file: which sections there are, of which kind; every description completes "give …"."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from poise.scenario.section import Section, Whole


class ScreenSection(Section):
    """The short runs that find out what matters."""

    runs: Whole = Field(default=6000, ge=1, description="how many short runs there are in all, as in 6000")
    seed: Whole = Field(default=0, ge=0, description="the seed of the selection and of the runs, as in 0")


class FinalsSection(Section):
    """The longer runs that rank the best of the short ones."""

    finalists: Whole = Field(default=6, ge=2, description="how many combinations, as in 6, the reference among them")
    seeds: Whole = Field(default=5, ge=2, description="how many seeds of generated load, as in 5")
    longer: float = Field(default=4.0, ge=1, description="how many times as long as a short run, as in 4")


class TournamentFile(Section):
    """The settings of a tournament."""

    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        min_length=1,
        description="a list of levels for each slot of policies or field of the scenario, the reference first",
    )
    blocks: dict[str, Annotated[dict[str, dict[str, Any]], Field(min_length=1)]] = Field(
        min_length=1, description="for each kind of block, as in traffic, a part of a scenario for each of its names"
    )
    scenario: dict[str, Any] = Field(default={}, description="the sections of a scenario that all blocks share")
    loads: list[Annotated[float, Field(gt=0)]] = Field(
        default=[0.8, 1.0, 1.2],
        min_length=1,
        description="factors on the load that the reference just carries, as in [0.8, 1, 1.2]",
    )
    screen: ScreenSection = Field(default=ScreenSection(), description="a mapping, as in {runs: 6000}")
    finals: FinalsSection = Field(default=FinalsSection(), description="a mapping, as in {finalists: 6, seeds: 5}")
