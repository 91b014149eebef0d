"""The workload of a scenario: one for each seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.core.units import ps
from poise.scenario.checks import source_of
from poise.scenario.load import Loaded
from poise.scenario.place import Path
from poise.scenario.schema_workload import Generated
from poise.workload import all_at_once, closed, constant, gamma, poisson, sessions, shared_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable

    from poise.core.spec import Cluster
    from poise.workload import Pairs, Workload

_GENERATORS: dict[str, Callable[..., Workload]] = {
    "poisson": poisson,
    "gamma": gamma,
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
    _pairs: Pairs | None = field(init=False, default=None)

    @property
    def recorded(self) -> bool:
        """Whether every seed has the same requests at the same instants."""
        section = self.loaded.scenario.workload
        return source_of(section) == "trace" and (section.scale == 1 or section.squeeze) and not self._enriched

    @property
    def _enriched(self) -> bool:
        section = self.loaded.scenario.workload
        return section.shared_prefixes is not None or section.sessions is not None

    def make(self, seed: int) -> Workload:
        """The workload under `seed`; ScenarioError points into the file."""
        section = self.loaded.scenario.workload
        source = source_of(section)
        workload = self._scaled(seed) if source == "trace" else self._generated(source, seed)
        if section.shared_prefixes is not None:
            given = section.shared_prefixes.model_dump()
            workload = self._try(("shared_prefixes",), shared_prefixes, workload, **given, seed=seed)
        if section.sessions is not None:
            given = section.sessions.model_dump()
            workload = self._try(("sessions",), sessions, workload, **given, seed=seed)
        return _with_clients(workload, section.timeout_s, section.deadline_s, section.retry, section.priority)

    def _try(self, path: Path, make: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call `make`; what it finds wrong is said to be at `path` of the section."""
        try:
            return make(*given, **named)
        except UserError as error:
            said = str(error).replace("or pass skip_bad=True", "or set skip_bad: true (--skip-bad)")
            raise self.loaded.places.error(("workload", *path), said) from None

    def _generated(self, source: str, seed: int) -> Workload:
        section: Generated = getattr(self.loaded.scenario.workload, source)
        given = {name: value for name, value in section.model_dump().items() if value is not None}
        if section.lengths is not None:
            if self._pairs is None:
                self._pairs = self._read_pairs(section.lengths, source)
            given["lengths"] = self._pairs
        made: Workload = self._try((source,), _GENERATORS[source], **given, seed=seed)
        self._serves(made)
        return made

    def _read_pairs(self, text: str, source: str) -> Pairs:
        from poise.workload import read_lengths

        path = ("workload", source, "lengths")
        pairs: Pairs = self._try(path[1:], read_lengths, self.loaded.file(text, path))
        return pairs

    def _scaled(self, seed: int) -> Workload:
        section = self.loaded.scenario.workload
        if self._trace is None:
            self._trace = self._read()
        if section.scale == 1:
            return self._trace
        scaled: Workload = self._try(("scale",), self._trace.scaled, section.scale, section.squeeze, seed)
        return scaled

    def _read(self) -> Workload:
        from poise.workload import read

        section = self.loaded.scenario.workload
        file = self.loaded.file(section.trace or "", ("workload", "trace"))
        given = {"format": section.format, "skip_bad": section.skip_bad, "limit": section.limit}
        workload: Workload = self._try(("trace",), read, file, **given, block_tokens=section.block_tokens)
        workload.source["sha256"] = _digest(file)
        if section.ignore_model:
            workload = replace(workload, model=None, models=())
        self._serves(workload)
        return workload

    def _serves(self, workload: Workload) -> None:
        """Name the workload's models as the catalogue does, and see that each is served."""
        served = list(dict.fromkeys(pool.model.name for pool in self.cluster.pools))
        if not workload.models:
            if len(served) > 1:
                said = (
                    f"the pools serve {' and '.join(served)}, but the workload does not say which model a request wants"
                )
                cure = "give a trace with a column `model`, or one model to all pools"
                raise self.loaded.places.error(("workload",), f"{said}; {cure}")
            return
        workload.models = tuple(_canonical(name) for name in workload.models)
        lacking = [name for name in workload.models if name not in served]
        if lacking:
            said = f"the trace asks for {', '.join(map(repr, lacking[:3]))}, which no pool serves"
            cure = "add a pool with that model, or set workload.ignore_model: true"
            raise self.loaded.places.error(("workload", "trace"), f"{said} (they serve {', '.join(served)}); {cure}")


def _canonical(name: str) -> str:
    """The catalogue's name of a model that it knows, else the name itself."""
    from poise.catalogue import model

    try:
        return model(name).name
    except UserError:
        return name


def _digest(file: Any) -> str:
    """SHA-256 of a file, for provenance."""
    import hashlib

    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _with_clients(
    workload: Workload, timeout_s: float | None, deadline_s: float | None, retry: int | None, priority: int | None
) -> Workload:
    """The same requests with what the scenario says of clients, for those that say nothing of their own."""
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
