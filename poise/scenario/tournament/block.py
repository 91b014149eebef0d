"""A block of a tournament: one kind of traffic, model and cluster, in which every combination can be run."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poise.experiment.store import digest
from poise.experiment.tournament.factor import Combination, alone, label, reference
from poise.policies import Policies
from poise.scenario.build import Problem, build
from poise.scenario.checks import check, decides_by
from poise.scenario.compare.cell import Task
from poise.scenario.compare.folder import basis, foreign
from poise.scenario.compare.study import Place, Setting, Study
from poise.scenario.load import Loaded, validated
from poise.scenario.override import apply_override
from poise.scenario.policy import build_policies
from poise.scenario.resolve import provenance
from poise.scenario.tournament.factor import is_slot, override
from poise.scenario.tournament.read import TournamentQuestion

if TYPE_CHECKING:
    from poise.report.figures import Figure
    from poise.workload import Workload

_LENGTHS = ("requests", "duration_s")


@dataclass(slots=True)
class Block:
    """names: one of each kind of block.  longer: the factor on the length of its traffic."""

    question: TournamentQuestion
    names: tuple[str, ...]
    longer: float = 1.0
    _problems: dict[Combination, Problem] = field(default_factory=dict, repr=False)
    _policies: dict[Combination, Policies] = field(default_factory=dict, repr=False)
    _common: dict[Combination, dict[str, Any]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its names in one, as in code / llama / equal."""
        return " / ".join(self.names)

    @property
    def by(self) -> Figure:
        """The figure that decides."""
        return decides_by(self._base.loaded.scenario)

    @property
    def target(self) -> float:
        """The share of arrivals that must meet the SLO of a load that is carried."""
        return self._base.loaded.scenario.compare.target

    @property
    def recorded(self) -> bool:
        """Whether its arrivals are those of a recording."""
        return self._base.traffic.from_trace

    def make(self, seed: int, load: float) -> Workload:
        """The requests of all combinations."""
        return self._base.traffic.make(seed, load)

    def policies(self, chosen: Combination) -> Policies:
        """The policies of a combination."""
        kept = self._part(chosen, slots=True)
        if kept not in self._policies:
            self._policies[kept] = self._built(chosen)[1]
        return self._policies[kept]

    def setting(self, chosen: Combination) -> Setting:
        """The other settings of a combination."""
        problem = self._problem(chosen)
        return Setting(
            problem.cluster, problem.cost, problem.belief, problem.slo, problem.warmup_s, problem.until_s, problem.drain
        )

    def task(self, chosen: Combination, load: float, seed: int, workload: Workload, *, cut: bool) -> Task:
        """One run; `cut` keeps it in bins of time."""
        place = Place(load, label(self.question.factors, chosen), seed)
        return Task(place, self.setting(chosen), workload, self.policies(chosen), cut=cut)

    def print(self, chosen: Combination, load: float, seed: int) -> str:
        """A digest of the inputs of a run's figures."""
        kept = self._part(chosen, slots=False)
        if kept not in self._common:
            self._common[kept] = basis(provenance(self._problem(chosen), self.make(0, 1.0)))
        values = [
            each.values[level] for each, level in zip(self.question.factors, chosen, strict=True) if is_slot(each)
        ]
        slots = [each.name for each in self.question.factors if is_slot(each)]
        own = list(foreign(self.policies(chosen)))
        base = self._base.loaded.scenario.policies.model_dump()
        return digest([self._common[kept], base, slots, values, own, load, seed])[:24]

    def study(self, some: Sequence[Combination], loads: Sequence[float], seeds: Sequence[int]) -> Study:
        """The comparison of some combinations, whose settings may differ."""
        labels = {label(self.question.factors, each): self.policies(each) for each in some}
        return Study(
            self.setting(reference(self.question.factors)), labels, self.make, self.recorded, self.by, tuple(loads),
            tuple(seeds), self.target,
        )  # fmt: skip

    @property
    def _base(self) -> Problem:
        return self._problem(reference(self.question.factors))

    def _part(self, chosen: Combination, *, slots: bool) -> Combination:
        """A combination with the factors at their reference that are policies, or that are not."""
        return tuple(
            level if is_slot(each) == slots else 0 for each, level in zip(self.question.factors, chosen, strict=True)
        )

    def _problem(self, chosen: Combination) -> Problem:
        kept = self._part(chosen, slots=False)
        if kept not in self._problems:
            self._problems[kept] = self._built(kept)[0]
        return self._problems[kept]

    def _built(self, chosen: Combination) -> tuple[Problem, Policies]:
        """The problem of a combination with its policies; ScenarioError says in which block what is wrong."""
        merged, places = self.question.data(self.names)
        data = deepcopy(merged)
        for each, level in zip(self.question.factors, chosen, strict=True):
            apply_override(data, places, *override(each, level))
        _lengthen(data, self.longer)
        loaded = Loaded(validated(data, places), places, self.question.folder)
        check(loaded.scenario, places)
        return build(loaded), build_policies(loaded)[0][1]


def _lengthen(data: dict[str, Any], times: float) -> None:
    """Make the traffic this many times as long."""
    workload = data.get("workload")
    if times == 1 or not isinstance(workload, dict):
        return
    inner = [each for each in workload.values() if isinstance(each, dict)]
    for part, names in ((workload, ("limit",)), *((each, _LENGTHS) for each in inner)):
        for name in names:
            if isinstance(part.get(name), int | float):
                part[name] = type(part[name])(part[name] * times)


def blocks(question: TournamentQuestion, longer: float = 1.0) -> list[Block]:
    """All blocks of a tournament, every level of every factor tried once; UserError for what cannot be built."""
    found = [Block(question, names, longer) for names in question.names()]
    for block in found:
        for chosen in alone(question.factors):
            block.setting(chosen)
            block.policies(chosen)
    return found
