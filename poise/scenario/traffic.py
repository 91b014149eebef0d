"""The workload of a scenario: one for each seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError, UserError
from poise.core.units import ps
from poise.cost import held_tokens
from poise.scenario.checks import source_of
from poise.scenario.load import Loaded
from poise.scenario.place import Path
from poise.scenario.schema_workload import LANES_ONLY
from poise.workload import (
    Profile,
    RequestClass,
    Task,
    Text,
    Workflow,
    adapters,
    all_at_once,
    burstgpt,
    by_stamps,
    classes,
    closed,
    constant,
    cut,
    diurnal,
    gamma,
    in_lanes,
    media,
    on_off,
    phases,
    poisson,
    recorded_sessions,
    servegen,
    sessions,
    shared_prefixes,
    shift,
    with_tool,
    workflows,
)
from poise.workload.aov import aov
from poise.workload.flows import unfolded
from poise.workload.matrix import orchestrated
from poise.workload.shared_state import shared_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from poise.core.spec import Cluster
    from poise.scenario.schema_workload import RecordedSessionsSection, SessionsSection, WorkloadSection
    from poise.workload import Workload

_GENERATORS: dict[str, Callable[..., Workload]] = {
    "poisson": poisson,
    "gamma": gamma,
    "diurnal": diurnal,
    "on_off": on_off,
    "phases": phases,
    "burstgpt": burstgpt,
    "servegen": servegen,
    "constant": constant,
    "closed": closed,
    "all_at_once": all_at_once,
}


@dataclass(slots=True)
class Traffic:
    """Makes the workload of each seed; files are read once."""

    loaded: Loaded
    cluster: Cluster
    _trace: Workload | None = field(init=False, default=None)
    _given: dict[str, Any] | None = field(init=False, default=None)

    @property
    def from_trace(self) -> bool:
        """Whether the arrivals are those of a trace, so that seeds are no independent traffic."""
        section = self.loaded.scenario.workload
        return source_of(section) == "trace" and section.lanes is None

    @property
    def recorded(self) -> bool:
        """Whether every seed has the same requests at the same instants."""
        section = self.loaded.scenario.workload
        return self.from_trace and (section.scale == 1 or section.squeeze) and not self._enriched

    @property
    def _enriched(self) -> bool:
        section = self.loaded.scenario.workload
        return any(
            each is not None for each in (section.shared_prefixes, section.sessions, section.adapters, section.media)
        )

    def make(self, seed: int, load: float = 1.0) -> Workload:
        """The workload under `seed` at `load` times its rate; ScenarioError points into the file."""
        section = self.loaded.scenario.workload
        source = source_of(section)
        if section.lanes is not None:
            workload = self._in_lanes(section, seed, load)
        else:
            workload = self._scaled(seed, load) if source == "trace" else self._generated(source, seed, load)
        if section.recorded_sessions is not None:
            workload = self._replayed(workload, section.recorded_sessions, seed)
        elif source != "trace":
            self._serves(workload)
        workload = self._changed(workload, section, seed)
        if section.workflows is not None:
            given = self._workflows()
            workload = self._try(("workflows",), workflows, workload, given, seed=seed)
        if section.shared_prefixes is not None:
            given = section.shared_prefixes.model_dump()
            workload = self._try(("shared_prefixes",), shared_prefixes, workload, **given, seed=seed)
        if section.sessions is not None:
            workload = self._talking(workload, section.sessions, seed)
        if section.adapters is not None:
            given = section.adapters.model_dump()
            workload = self._try(("adapters",), adapters, workload, **given, seed=seed)
        if section.media is not None:
            given = section.media.model_dump()
            workload = self._try(("media",), media, workload, **given, seed=seed)
        if section.shared_state is not None:
            given = section.shared_state.model_dump()
            workload = self._try(("shared_state",), shared_state, workload, **given, seed=seed)
        if section.aov is not None:
            workload = self._try(("aov",), aov, workload, **section.aov.model_dump(), seed=seed)
        if section.orchestration is not None:
            given = section.orchestration.model_dump()
            workload = self._try(("orchestration",), orchestrated, workload, **given)
        return _with_clients(workload, section.timeout_s, section.deadline_s, section.retry, section.priority)

    def _changed(self, workload: Workload, section: WorkloadSection, seed: int) -> Workload:
        """The requests in classes, with lengths that change on the way or are cut, where the section says so."""
        if section.classes is not None:
            kinds = {name: RequestClass(**_given(each)) for name, each in section.classes.items()}
            workload = self._try(("classes",), classes, workload, kinds, seed=seed)
        if section.shift is not None:
            workload = self._try(("shift",), shift, workload, **section.shift.model_dump())
        if section.cut is not None:
            workload = self._try(("cut",), cut, workload, **section.cut.model_dump())
        return workload

    def _talking(self, workload: Workload, section: SessionsSection, seed: int) -> Workload:
        """Sessions that begin with the requests, and the tool that their answers call."""
        given = section.model_dump()
        tool, hung, hung_s = (given.pop(name) for name in ("tool", "hung", "hung_s"))
        workload = self._try(("sessions",), sessions, workload, **given, seed=seed)
        if tool is None:
            return workload
        found: Workload = self._try(("sessions",), with_tool, workload, tool, hung=hung, hung_s=hung_s, seed=seed)
        return found

    def _workflows(self) -> dict[str, Workflow]:
        """The workflows of the section, checked."""
        found, workload = {}, self.loaded.scenario.workload
        flows = {
            name: {task: Task(**_given(each)) for task, each in tasks.items()}
            for name, tasks in (workload.flows or {}).items()
        }
        for name, section in (workload.workflows or {}).items():
            tasks = {task: Task(**_given(each)) for task, each in section.tasks.items()}
            tasks = self._try(("workflows", name), unfolded, tasks, flows)
            texts = {text: Text(**_given(each)) for text, each in section.texts.items()}
            found[name] = self._try(("workflows", name), Workflow, tasks, texts, section.share)
        return found

    def _try(self, path: Path, make: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call `make`; its errors are located at `path` of the section."""
        try:
            return make(*given, **named)
        except UserError as error:
            text = str(error).replace("or pass skip_bad=True", "or set skip_bad: true (--skip-bad)")
            raise self.loaded.places.error(("workload", *path), text) from None

    def _generated(self, source: str, seed: int, load: float) -> Workload:
        if self._given is None:
            self._given = self._arguments(source)
        given = self._given if load == 1 else self._try((source,), _at_load, source, self._given, load)
        made: Workload = self._try((source,), _GENERATORS[source], **given, seed=seed)
        return made

    def _arguments(self, source: str) -> dict[str, Any]:
        """The arguments of the generator of `source`: the section's fields, with files' contents in place of names."""
        from poise.workload import read_clients, read_lengths, read_profile

        section = getattr(self.loaded.scenario.workload, source)
        if source == "phases":
            return {"steps": [_given(each) for each in section]}
        given = {name: value for name, value in section.model_dump().items() if value is not None}
        if source == "servegen":
            files = [self._file(source, name, given.pop(name, None)) for name in ("arrivals", "lengths")]
            given["clients"] = self._read((source, "arrivals"), read_clients, *files)
            return given
        if "lengths" in given:
            given["lengths"] = self._read(
                (source, "lengths"), read_lengths, self._file(source, "lengths", given["lengths"])
            )
        if source == "diurnal":
            part = {name: given.pop(name) for name in ("begin_s", "lasting_s") if name in given}
            if "counts" in given:
                counts = self._file(source, "counts", given.pop("counts"))
                given["points"] = self._read((source, "counts"), read_profile, counts, **part)
        return given

    def _file(self, source: str, name: str, text: str | None) -> Any:
        return None if text is None else self.loaded.file(text, ("workload", source, name))

    def _read(self, path: Path, make: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self._try(path, make, *given, **named, skip_bad=self.loaded.scenario.workload.skip_bad)

    def _scaled(self, seed: int, load: float) -> Workload:
        section = self.loaded.scenario.workload
        if self._trace is None:
            self._trace = self._recording(("trace",), section)
            if section.open_loop:
                self._trace = by_stamps(self._trace)
        if section.scale == load == 1:
            return self._trace
        wanted = self._trace.at_rate if isinstance(section.scale, dict) else self._trace.scaled
        number = section.scale["rate"] if isinstance(section.scale, dict) else section.scale
        number = number if load == 1 else number * load
        scaled: Workload = self._try(("scale",), wanted, number, section.squeeze, seed)
        return scaled

    def _in_lanes(self, section: WorkloadSection, seed: int, load: float) -> Workload:
        """The trace's conversations in lanes, of which there are `load` times as many."""
        if self._trace is None:
            self._trace = self._recording(("trace",), section)
        lanes = (section.lanes or 0) * load
        if lanes != round(lanes) or lanes < 1:
            text = f"{section.lanes} times load {load:g} is {lanes:g}, which must be a whole number; give other loads"
            raise self.loaded.places.error(("workload", "lanes"), text)
        given = {name: getattr(section, name) for name in LANES_ONLY}
        longest = max(held_tokens(pool) for pool in self.cluster.pools)
        given["max_context"] = section.max_context or longest
        made: Workload = self._try(("lanes",), in_lanes, self._trace, round(lanes), **given, seed=seed)
        return made

    def _replayed(self, starts: Workload, section: RecordedSessionsSection, seed: int) -> Workload:
        """Sessions of a recording that begin with the requests of `starts`."""
        if self._trace is None:
            self._trace = self._recording(("recorded_sessions", "trace"), section)
        named = {"think_s": section.think_s, "seed": seed}
        made: Workload = self._try(("recorded_sessions",), recorded_sessions, starts, self._trace, **named)
        return made

    def _recording(self, path: Path, section: WorkloadSection | RecordedSessionsSection) -> Workload:
        """The trace that a section names, at `path` of the workload."""
        from poise.workload import read

        file = self.loaded.file(section.trace or "", ("workload", *path))
        given = {name: getattr(section, name) for name in ("format", "columns", "limit", "block_tokens")}
        workload: Workload = self._read(path, read, file, **given)
        workload.source["sha256"] = _digest(file)
        if self.loaded.scenario.workload.ignore_model:
            workload = replace(workload, model=None, models=())
        self._serves(workload, ("workload", *path))
        return workload

    def _serves(self, workload: Workload, path: Path = ("workload",)) -> None:
        """Give the workload's models their catalogue names, and check that each is served."""
        served = list(dict.fromkeys(pool.model.name for pool in self.cluster.pools))
        if not workload.models:
            if len(served) > 1:
                text = (
                    f"the pools serve {' and '.join(served)}, but the workload does not say which model a request wants"
                )
                cure = "give a trace with a column `model`, or one model to all pools"
                raise self.loaded.places.error(("workload",), f"{text}; {cure}")
            return
        workload.models = tuple(_canonical(name) for name in workload.models)
        lacking = [name for name in workload.models if name not in served]
        if lacking:
            text = f"the trace asks for {', '.join(map(repr, lacking[:3]))}, which no pool serves"
            cure = "add a pool with that model, or set workload.ignore_model: true"
            raise self.loaded.places.error(path, f"{text} (they serve {', '.join(served)}); {cure}")


def _given(section: Any) -> dict[str, Any]:
    """The values that a section sets."""
    return {name: value for name, value in section.model_dump().items() if value is not None}


def _at_load(source: str, given: dict[str, Any], load: float) -> dict[str, Any]:
    """The arguments of a generator for `load` times its rate; ScenarioError where it has none."""
    changed: dict[str, Any] = {name: given[name] * load for name in ("rate", "rate_on", "rate_off") if name in given}
    if "gap_s" in given:
        changed["gap_s"] = given["gap_s"] / load
    elif source == "diurnal" and not changed:
        profile = given["points"]
        changed["points"] = (profile if isinstance(profile, Profile) else Profile.of(profile)).times(load)
    elif source == "phases":
        changed["steps"] = [{**each, "rate": each["rate"] * load} for each in given["steps"]]
    if not changed:
        cure = "give its rate" if source == "servegen" else "compare at load 1, or give poisson, gamma or a trace"
        raise ScenarioError(f"has no rate that load {load:g} could multiply; {cure}")
    return given | changed


def _canonical(name: str) -> str:
    """The catalogue's name of a model that it knows, else the name itself."""
    from poise.catalogue import model

    try:
        return model(name).name
    except UserError:
        return name


def _digest(file: Any) -> str:
    """SHA-256 of a file, for provenance; of a folder that of its files' digests, by name."""
    import hashlib

    if file.is_dir():
        members = sorted(each for each in file.iterdir() if each.is_file())
        return hashlib.sha256("".join(map(_digest, members)).encode()).hexdigest()
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _with_clients(
    workload: Workload, timeout_s: float | None, deadline_s: float | None, retry: int | None, priority: int | None
) -> Workload:
    """The same requests with the scenario's settings for clients, for those without their own."""
    import numpy as np

    changed: dict[str, Any] = {}
    for name, limit in (("timeout", timeout_s), ("deadline", deadline_s)):
        if limit is not None:
            own = getattr(workload, name)
            same = np.full(len(workload), ps(limit), dtype=np.int64)
            changed[name] = same if own is None else np.where(own > 0, own, same)
    if priority is not None and workload.priority is None:
        changed["priority"] = np.full(len(workload), priority, dtype=np.int16)
    if retry is not None:
        changed["retry"] = retry
    return replace(workload, **changed) if changed else workload
