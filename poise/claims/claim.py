"""A published claim as data, the criteria it is held to, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from poise.report.wording import Kind
from poise.scenario.section import Section, Whole

Verdict = Literal["holds", "holds in part", "does not hold", "not tested here"]
"""What criteria come to; beside these, a result measured with other code is `stale`."""

Trust = Literal["code", "text", "notes", "abstract"]
"""How well the publication is known here: its rules read in its own code, in its text, in notes of others on the text,
or in its abstract alone. The weaker, the less is asked: of an abstract nothing but directions."""


RATES = "load, req/s"
"""What an axis of rates is called."""


EXPERIMENTS = ("sweeps", "runs", "capacities")
"""The sections that simulate policies."""


class Source(Section):
    """A file that an experiment reads."""

    file: str = Field(description="its path below the folder of data, as in mooncake/conversation_trace.jsonl.gz")
    published: str = Field(pattern="^https://", description="where it is published, as in https://example.org")


class Test(Section):
    """Where values must lie: those with an interval by the whole of it, unless `by` says otherwise.

    The lower half says what a sweep measures for it; an experiment of its own gives the values itself.
    """

    least: float | None = Field(default=None, description="the lowest that is allowed, as in 1.5")
    most: float | None = Field(default=None, description="the highest that is allowed, as in 6")
    above: float | None = Field(default=None, description="what all must exceed, as in 1")
    below: float | None = Field(default=None, description="what all must fall short of, as in 1")
    at: Whole | None = Field(default=None, ge=1, description="at how many places it must be so, as in 3 (else at all)")
    floor: float | None = Field(default=None, description="what no value may surely fall short of, at any place")
    by: Literal["interval", "value", "likely"] = Field(
        default="interval", description="interval; value; or likely, met by the value and refuted by the interval"
    )
    sweep: str = Field(default="", description="the sweep that it is about (else the first)")
    figure: str = Field(default="", description="a figure, as in ttft_s.p99, or a sum of counts, as in a + b")
    capacity: str = Field(default="", description="the search that it is about, in place of a figure")
    order: list[list[str]] = Field(default=[], description="of a search, rows: each carries more than all of the next")
    ahead: str = Field(default="", description="who must be ahead in it of each in `of`")
    of: list[str] = Field(default=[], description="the others, as in [round_robin]")
    times: list[str] = Field(default=[], description="[A, B]: how many times as much B has as A, at each place")
    peak: list[str] = Field(default=[], description="[A, B]: the same at the place where it is most")
    rise: list[str] = Field(default=[], description="[A, B]: the same at each place over the one before")
    growth: str = Field(default="", description="A: how many times as much it has at each place as at the one before")
    last: Whole | None = Field(default=None, ge=1, description="of `times`, only so many places at the end, as in 2")
    over: str = Field(
        default="", description="of `times`, how much larger it is than in this figure, as in ttft_s.mean"
    )
    value: str = Field(default="", description="in place of a figure a formula, as in ratio(load['a'].span_s, …)")
    shows: str = Field(default="", description="a formula that is shown beside a plain yes or no of `value`")

    @property
    def beyond(self) -> float | None:
        """What all must exceed: who is ahead has a lead above 0."""
        return 0.0 if self.ahead and self.above is None else self.above

    @model_validator(mode="after")
    def _bounded(self) -> Test:
        if self.value and (self.figure or self.capacity):
            raise ValueError("has a formula and a figure or search; give value, or one of the others")
        if self.shows and not self.value:
            raise ValueError("shows a formula and asks none; give value")
        if (
            not self.ahead
            and not self.order
            and not self.value
            and self.least is self.most is self.above is self.below is None
        ):
            raise ValueError("has no bound; give one of least, most, above, below")
        comparisons = [each for each in (self.ahead, self.times, self.peak, self.rise, self.growth, self.order) if each]
        if len(comparisons) != bool(self.figure or self.capacity):
            raise ValueError("names a figure without what is asked of it; give one of ahead, times, peak, rise, growth")
        if self.capacity and (self.figure or not (self.times or self.order)):
            raise ValueError("asks of a search what only a sweep has; give times = [A, B] or order = [[A], [B]]")
        if self.order and not self.capacity:
            raise ValueError("has an order without the search that it is of; give capacity")
        if any(len(each) != 2 for each in (self.times, self.peak, self.rise) if each):
            raise ValueError("compares other than two; give [A, B]")
        if (self.last or self.over) and not self.times:
            raise ValueError("has `last` or `over` without `times`; give times = [A, B] or leave these out")
        return self


class Criterion(Section):
    """One thing that must come out for a claim to hold."""

    asks: str = Field(description="what must come out, as in 'Lower mean latency than round robin'")
    paper: str = Field(description="what was published of it, as in '1.5 to 14.5 times'")
    why: str = Field(default="", description="the reason, told where it is not met")
    since: date | None = Field(default=None, description="its date where it is younger than the first run")
    test: Test | None = Field(default=None, description="a test, as in {least = 1.5}; none for a plain yes or no")


class SweepSection(Section):
    """The policies of `compare` under one scenario, along an axis."""

    across: str = Field(default="", description="what the axis is, with its unit; of rates 'load, req/s'")
    of: list[str] = Field(default=[], description="the labels of `compare` that are in it, all where it is left out")
    vary: str | list[str] = Field(default=[], description="what changes, as in workload.poisson.rate, or several")
    at: list[float] = Field(min_length=1, description="its values, as in [4, 8, 12]")
    set: dict[str, Any] = Field(default={}, description="what else this sweep changes, as in {engine.lanes: []}")
    each: list[dict[str, Any]] = Field(default=[], description="what else changes at each value, one mapping a value")
    curves: dict[str, str] = Field(default={}, description="figures to draw, by title")
    kind: Kind | None = Field(default=None, description="how curves are written: seconds, share or number")

    @model_validator(mode="before")
    @classmethod
    def _across_rates(cls, data: Any) -> Any:
        """An axis of rates needs no name."""
        vary = data.get("vary") if isinstance(data, dict) else None
        return {"across": RATES, **data} if isinstance(vary, str) and vary.endswith(".rate") else data

    @model_validator(mode="after")
    def _one_for_each(self) -> SweepSection:
        if self.each and len(self.each) != len(self.at):
            raise ValueError(f"has {len(self.each)} mappings in `each` for {len(self.at)} values; give one for each")
        if not self.vary and not self.each and len(self.at) > 1:
            raise ValueError("changes nothing along its axis; give vary, as in workload.poisson.rate, or each")
        if not self.across and type(self) is SweepSection:
            raise ValueError("varies what is no rate and says nothing of its axis; give across")
        return self

    def changes(self, place: float) -> dict[str, Any]:
        """What is other than in the setting at a place, by path."""
        paths = [self.vary] if isinstance(self.vary, str) else self.vary
        each = self.each[self.at.index(place)] if self.each else {}
        return {**self.set, **each, **dict.fromkeys(paths, place)}


class RunsSection(SweepSection):
    """Runs of each label of `compare`, along an axis or at one place, whose figures formulas name.

    What changes for one label alone is at settings.LABEL.PATH, as in settings.ours.cluster.pools.0.replicas.
    """

    at: list[float] = Field(default=[0.0], min_length=1, description="its values, as in [4, 8, 12]")
    seeds: Whole | None = Field(default=None, ge=1, description="how many, where that is not as the claim says")
    whole: bool = Field(default=False, description="whether a quick run has all of them, as they are short")

    def changes_of(self, label: str, place: float, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What is other than in the setting for a label at a place: of all labels, of its `settings`, and its own."""
        found, own = self.changes(place), f"settings.{label}."
        common = {path: value for path, value in found.items() if not path.startswith("settings.")}
        mine = {path.removeprefix(own): value for path, value in found.items() if path.startswith(own)}
        return {**common, **settings, **mine}


class PointsSection(SweepSection):
    """What a function of the package gives at some points: the figures of closed forms and models.

    Arguments are those of `set`, of `each` and `vary` at a place, and of a line of its own; parts of one by path.
    """

    call: str = Field(description="a function or class, as in poise.cost.intensity.decode_s")
    at: list[float] = Field(default=[0.0], min_length=1, description="its values, as in [1024, 4096]")
    lines: dict[str, dict[str, Any]] = Field(default={}, description="by label, the arguments that are its own")
    paper: list[float] = Field(default=[], description="published values, one for each value of `at`")
    shorter: list[str] = Field(default=["requests"], description="arguments of which a quick run has a tenth")

    @model_validator(mode="after")
    def _published(self) -> PointsSection:
        if self.paper and len(self.paper) != len(self.at):
            raise ValueError(f"has {len(self.paper)} published values for {len(self.at)} places; give one for each")
        return self


class CapacitySection(Section):
    """The highest rate that each policy of `compare` carries within the limits of the setting's `slo`."""

    across: str = Field(default=RATES, description="what the rate is, with its unit")
    of: list[str] = Field(default=[], description="the labels of `compare` that are in it, all where it is left out")
    vary: str = Field(default="workload.poisson.rate", description="the rate, as in workload.poisson.rate")
    most: float = Field(gt=0, description="the highest rate that is tried, as in 24")
    within: float = Field(default=0.1, gt=0, description="how near the rate is found, as in 0.1")
    met: float = Field(default=0.9, gt=0, le=1, description="the share of requests that must be within the limits")
    figure: str = Field(default="slo_attainment", description="that share, as in in_time for those of deadlines")
    limits: dict[str, float] = Field(
        default={}, description="in place of a share, figures and the most that each may be, as in {ttft_s.p50: 2}"
    )
    per_device: bool = Field(default=False, description="whether the rate is for each device of a policy's cluster")
    set: dict[str, Any] = Field(default={}, description="what else this search changes, as in {engine.lanes: []}")
    at: list[float] = Field(default=[], description="rates at which the share is drawn, as in [4, 8]")


class Paper(Section):
    """The publication of a system."""

    arxiv: str = Field(default="", pattern=r"^(\d{4}\.\d{4,5})?$", description="its id, in quotes")
    venue: str = Field(default="", description="where else it was published, as in 'OSDI 2024'")
    year: Whole = Field(gt=1970, description="the year, as in 2024")
    trust: Trust = Field(description="code, text, notes or abstract: what of it is known")
    ids: list[Whole] = Field(default=[], description="its numbers in the list of systems")
    group: str = Field(default="", description="its group, where it is not in that list")

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.venue, f"arXiv {self.arxiv}" if self.arxiv else "", str(self.year))))


class Claim(Section):
    """What a paper says, and what of it is tried here: one file of `systems/`."""

    system: str = Field(description="its name as published")
    paper: Paper = Field(description="a paper, as in {arxiv = '2406.03243', venue = 'OSDI 2024', year = 2024, …}")
    slot: str = Field(description="the slot that it fills; where it is not a policy, cost, workload, …")
    policies: list[str] = Field(min_length=1, description="the files that stand for it, as in [llumnix]")
    others: list[str] = Field(default=[], description="those that it is compared with")
    published: str = Field(description="the headline as published")
    conditions: str = Field(description="the conditions as published")
    here: str = Field(default="", description="the conditions of the experiment")
    does: str = Field(default="", description="what it does, in a sentence or two")
    use: list[str] = Field(default=[], description="commands that use it, as in ['poise train schedule gpipe …']")
    lacking: str = Field(
        default="", description="what of the paper's conditions is not met, so that it cannot be refuted"
    )
    first: date | None = Field(default=None, description="the date of the first run, as in 2026-11-22")
    data: list[Source] = Field(default=[], description="recorded traces")
    seeds: Whole | list[Whole] = Field(default=1, description="how many, or [from, at most]: more until decided")
    setting: dict[str, Any] = Field(default={}, description="a scenario without policies")
    compare: dict[str, dict[str, Any]] = Field(default={}, description="policies of a scenario, by label")
    settings: dict[str, dict[str, Any]] = Field(default={}, description="by label, what of the setting is its own")
    sweeps: dict[str, SweepSection] = Field(default={}, description="axes along which they are compared")
    capacities: dict[str, CapacitySection] = Field(default={}, description="highest rates that are searched")
    runs: dict[str, RunsSection] = Field(default={}, description="runs whose figures formulas name")
    points: dict[str, PointsSection] = Field(default={}, description="tables of closed forms and models")
    let: dict[str, str] = Field(default={}, description="formulas by name, for other formulas")
    shown: dict[str, str] = Field(default={}, description="formulas of notes, by their keys")
    headline: dict[str, Criterion] = Field(default={}, description="what must come out of the headline, by a short key")
    beside: dict[str, Criterion] = Field(default={}, description="what else must come out, by a short key")
    notes: dict[str, str] = Field(default={}, description="what is told and not judged, by a short key")

    @model_validator(mode="before")
    @classmethod
    def _compared(cls, data: Any) -> Any:
        """Without labels, those are compared that the claim names for its slot, each by itself."""
        if not isinstance(data, dict) or {"compare", "settings"} & {*data} or not {*EXPERIMENTS} & {*data}:
            return data
        names = [name for each in ("others", "policies") for name in data.get(each, []) if isinstance(name, str)]
        return {**data, "compare": {name: {data.get("slot"): name} for name in names}}

    @model_validator(mode="after")
    def _consistent(self) -> Claim:
        if bool(self.criteria) != bool(self.here):
            raise ValueError("has criteria or `here` alone; give both, or neither where no experiment can decide it")
        if not self.headline and not self.lacking:
            raise ValueError("says neither what must come out nor why nothing can; give headline, or lacking")
        for key, each in self.criteria.items():
            if each.since and not (self.first and self.first <= each.since):
                raise ValueError(
                    f"{key}.since is not after the first run; give a later date, or `first`, the date of that run"
                )
        if self.settings and (self.sweeps or not set(self.settings) <= set(self.labels)):
            raise ValueError("has `settings` beside sweeps or for no label of compare; give them to capacities alone")
        if not {*self.shown} <= {*self.notes}:
            raise ValueError("shows a formula for no note; give shown the keys of notes")
        if len({*self.headline, *self.beside, *self.notes}) < len(self.criteria) + len(self.notes):
            raise ValueError("has a key twice among headline, beside and notes; give each its own")
        return self

    @property
    def labels(self) -> list[str]:
        """What is run: each label of `compare`, or of `settings` where policies are those of the setting."""
        return list(self.compare or self.settings)

    @property
    def criteria(self) -> dict[str, Criterion]:
        """All that must come out, the headline first."""
        return self.headline | self.beside

    @property
    def rounds(self) -> tuple[int, int]:
        """How many seeds to begin with, and how many at most."""
        if isinstance(self.seeds, int):
            return self.seeds, self.seeds
        return self.seeds[0], self.seeds[-1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A criterion with what came out. met: None where chance decides."""

    key: str
    criterion: Criterion
    headline: bool
    measured: str
    met: bool | None

    @property
    def why(self) -> str:
        """The reason where it is not met."""
        return "" if self.met else self.criterion.why

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        criterion = {"asks": self.criterion.asks, "paper": self.criterion.paper, "headline": self.headline}
        since = self.criterion.since.isoformat() if self.criterion.since else None
        return {
            "key": self.key,
            **criterion,
            "since": since,
            "measured": self.measured,
            "met": self.met,
            "why": self.why,
        }


class Point(NamedTuple):
    """A figure at one place of an axis; `half` is half of its 95 % interval, None where there is none."""

    x: float
    value: float | None
    half: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over an axis, with a line for each policy."""

    title: str
    across: str
    kind: Kind
    lines: Mapping[str, Sequence[Point]]


def verdict(outcomes: Sequence[Outcome], lacking: str = "") -> Verdict:
    """What criteria come to.

    holds: all are met.  holds in part: some of the headline is, and something is not.  does not hold: nothing of the
    headline is met, some of it is refuted, and nothing of the paper's conditions is `lacking`.  Else it is not tested
    here: chance decides the headline, or the conditions are others.
    """
    headlines = [each.met for each in outcomes if each.headline]
    if any(headlines):
        return "holds" if all(each.met for each in outcomes) else "holds in part"
    return "does not hold" if False in headlines and not lacking else "not tested here"
