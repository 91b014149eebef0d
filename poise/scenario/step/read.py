"""Reads and checks a step file, and makes it an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.errors import PoiseError, ScenarioError, ScheduleError
from poise.cost.training import Job, Layout
from poise.cost.training.layout import check
from poise.cost.training.schedules import REFUSED, SCHEDULES, why_not
from poise.experiment.case import Case
from poise.experiment.compare import Experiment
from poise.pipeline.costs import Costs
from poise.pipeline.saved import load_seconds
from poise.scenario.override import Override, apply_override, parse_override
from poise.scenario.place import Places, at_home
from poise.scenario.read import Kind, read_yaml
from poise.scenario.step.passes import hows
from poise.scenario.step.schema import LayoutSection, StepFile
from poise.scenario.step.world import FIGURES, VARIED, Jitter, laid, run

KIND = Kind("a step (examples/step.yaml is one)", "at least the sections model, cluster and layout", "kind: step")

ALONE = "setting"
"""The name of settings where nothing varies."""

GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class StepQuestion:
    """A checked step file. name: of the file, for titles."""

    file: StepFile
    experiment: Experiment
    name: str

    @property
    def job(self) -> Job:
        """The job and its cluster."""
        found: Job = self.experiment.cases[0].parameters["job"]
        return found


def read(path: Path, overrides: Sequence[str] = (), more: Sequence[Override] = ()) -> StepQuestion:
    """Read the step in `path`, changed by `overrides` and `more`; ScenarioError, one line, for the first mistake."""
    from poise.scenario.explain import checked

    data, places = read_yaml(at_home(path), str(path), KIND)
    for option in (*map(parse_override, overrides), *more):
        apply_override(data, places, *option)
    file = checked(StepFile, data, places)
    costs = None if file.costs is None else _costs(places.file(file.costs, ("costs",), at_home(path).parent), places)
    return StepQuestion(file, _experiment(file, places, costs), path.stem)


def _costs(file: Path, places: Places) -> Costs:
    """The costs in a file, in seconds."""
    try:
        return load_seconds(file)
    except ScheduleError as error:
        raise places.error(("costs",), str(error)) from None


def _experiment(file: StepFile, places: Places, costs: Costs | None) -> Experiment:
    axis, settings = _axis(file, places)
    jitter = Jitter(file.jitter.rank, file.jitter.microbatch)
    chance = jitter != Jitter()
    cases = tuple(_cases(file, places, jitter, costs))
    by = next((figure for figure in FIGURES if figure.name == file.compare.by), None)
    if by is None:
        known = ", ".join(figure.name for figure in FIGURES)
        raise places.error(("compare", "by"), f"{file.compare.by!r} is not a figure of a step; give one of {known}")
    found = Experiment(cases, run, FIGURES, by, settings, _seeds(file, places) if chance else (0,), axis, chance)
    for case in found.names:
        for at in found.settings:
            try:
                parameters = found.case(case, at).parameters
                job, layout = laid(parameters)
                check(job, layout)
                parameters["how"].check(job, layout, jitter)
            except PoiseError as error:
                where = case if axis == ALONE else f"{case} at {axis} {at:g}"
                raise ScenarioError(f"{places.name}: {where}: {error}") from None
    return found


def _axis(file: StepFile, places: Places) -> tuple[str, tuple[float, ...]]:
    """The varied parameter, and its values."""
    vary = file.compare.vary
    if not vary:
        return ALONE, (1.0,)
    counts = [each.name for each in fields(Layout) if each.type == "int"]
    if len(vary) > 1:
        raise places.error(("compare", "vary"), f"has {len(vary)} numbers; give one, and write layouts for the others")
    ((name, values),) = vary.items()
    if name not in (*VARIED, *counts):
        raise places.error(("compare", "vary"), f"{name!r} cannot vary; give one of {', '.join((*VARIED, *counts))}")
    if not values or min(values) < 1 or len(set(values)) < len(values):
        raise places.error(("compare", "vary", name), f"{values}: must be different numbers above 0, as in [1, 2, 4]")
    return name, tuple(map(float, values))


def _seeds(file: StepFile, places: Places) -> tuple[int, ...]:
    seeds = file.run.seeds
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        text = f"{seeds}: give how many there are, as in 5, or different ones, as in [3, 7]"
        raise places.error(("run", "seeds"), text)
    return chosen


def _cases(file: StepFile, places: Places, jitter: Jitter, costs: Costs | None) -> list[Case]:
    """Every layout with every schedule and every list of passes."""
    try:
        what, on = model(file.model), device(file.cluster.device)
    except PoiseError as error:
        raise ScenarioError(f"{places.name}: {error}") from None
    job = Job(
        what, on, file.cluster.devices, file.sequence, file.batch, precision=file.precision, node=file.cluster.node,
        nic_bw=file.cluster.nic_gbit_s * GBIT,
    )  # fmt: skip
    price = on.price_per_hour if file.cluster.price is None else file.cluster.price
    for at, name in enumerate(file.schedule):
        if name not in SCHEDULES:
            known = f"{name!r} is not known; give one of {', '.join(SCHEDULES)}"
            raise places.error(("schedule", at), why_not(name) if name in REFUSED else known)
    labels = _labels(file)
    if len(set(labels)) < len(labels):
        raise places.error(("layout",), "a layout stands twice; keep it once, or give it a name or other degrees")
    pairs = zip(labels, ((layout, name) for layout in file.layout for name in file.schedule), strict=True)
    given = {"job": job, "price": price, "jitter": jitter}
    ways = hows(file.links, file.passes, costs, places)
    return [
        Case(_joined(own, passes, len(labels), len(ways)), {**given, "layout": _given(layout, name), "how": how})
        for own, (layout, name) in pairs
        for passes, how in ways.items()
    ]


def _joined(label: str, passes: str, layouts: int, lists: int) -> str:
    """The label of a layout with a list of passes, of what differs."""
    if lists == 1:
        return label
    return passes if layouts == 1 else f"{label}, {passes}"


def _given(layout: LayoutSection, schedule: str) -> dict[str, Any]:
    return {**layout.model_dump(exclude={"name"}), "schedule": schedule}


def _labels(file: StepFile) -> list[str]:
    """The labels of cases: their names, or the fields in which layouts differ, and the schedule where there are
    several."""
    fields = [each.model_dump(exclude={"name"}, exclude_unset=True) for each in file.layout]
    names = list(dict.fromkeys(name for each in fields for name in each))
    apart = [name for name in names if len({str(each.get(name)) for each in fields}) > 1] or names
    layouts = [
        each.name or " ".join(f"{name} {value}" for name in apart if (value := getattr(each, name)) is not None)
        for each in file.layout
    ]
    if len(file.schedule) == 1:
        return [each or file.schedule[0] for each in layouts]
    if len(layouts) == 1:
        return list(file.schedule)
    return [f"{each} {name}" for each in layouts for name in file.schedule]


def is_step(path: Path) -> bool:
    """Whether the file says that it is a step."""
    try:
        lines = at_home(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return False  # whoever reads it as a scenario says why
    return any(line.split("#")[0].split() == ["kind:", "step"] and not line[0].isspace() for line in lines)
