"""The traffic of a plan: a trace, a scenario's workload, or a rate with lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from poise.core.errors import ScenarioError, UserError
from poise.core.spec import Cluster, Device, Pool
from poise.plan.demand import LEAST_S, MOST, REQUESTS, Demand, demand_of
from poise.scenario.load import Loaded, validated
from poise.scenario.override import apply_override, of_trace, parse_override
from poise.scenario.place import Places, at_home
from poise.scenario.read import read_yaml
from poise.scenario.resolve import resolved_workload
from poise.scenario.traffic import Traffic
from poise.workload import Workload

SCENARIOS = (".yaml", ".yml")

MOST_TOKENS = 8_000_000_000
"""Tokens of one trial: a hundred thousand requests of eighty thousand."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the requests.

    file: a trace, or a scenario of which the workload is taken.  rate, prompt_tokens, output_tokens: Poisson arrivals
    in its place; lengths are numbers or distributions.  sets: changes of fields, as in `workload.scale=2`.
    columns: which columns of the trace hold which fields, as in `arrival_s=created at`.
    """

    file: Path | None = None
    rate: float | None = None
    prompt_tokens: Any = None
    output_tokens: Any = None
    sets: Sequence[str] = ()
    columns: str | None = None

    @property
    def name(self) -> str:
        """Its name in errors."""
        return str(self.file) if self.file is not None else "--rate"

    def plain(self, error: UserError) -> UserError:
        """An error about a trace without mention of the scenario around it, which the user has not written."""
        if self.file is None or self.file.suffix in SCENARIOS:
            return error
        text = str(error).replace(f"{self.file}: workload.trace: {self.file}", f"{self.file}")
        text = text.replace(f"{self.file}: workload.trace: ", f"{self.file}: ")
        for field in ("skip_bad", "ignore_model"):
            text = text.replace(f"set workload.{field}: true", f"give --set workload.{field}=true")
            text = text.replace(f"set {field}: true", f"give --set workload.{field}=true")
        return UserError(text.replace(" (--skip-bad)", ""))

    def load(self, device: Device) -> Loaded:
        """A scenario with these requests; `device` is its cluster where it names none."""
        data, places = self._data()
        for option in (*map(parse_override, self.sets), *of_trace(False, self.columns)):
            apply_override(data, places, *option)
        data.setdefault("cluster", {"pools": [{"device": device.name}]})
        folder = at_home(self.file).parent if self.file is not None else Path()
        return Loaded(validated(data, places), places, folder)

    def _data(self) -> tuple[dict[str, Any], Places]:
        if self.file is None:
            return {"workload": {"poisson": self._poisson()}}, Places("the command line")
        if self.rate is not None:
            raise UserError(
                f"--rate: {self.file} has arrivals of its own; give one or the other, or --set workload.scale"
            )
        if self.file.suffix in SCENARIOS:
            return read_yaml(at_home(self.file), str(self.file))
        file = str(self.file)
        return {"workload": {"trace": file}}, Places(file, overrides={("workload", "trace"): file})

    def _poisson(self) -> dict[str, Any]:
        if self.rate is None:
            raise UserError(
                "there is no traffic; give a trace, a scenario, or --rate with --prompt-tokens and --output-tokens"
            )
        given = {"prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens}
        requests = min(max(REQUESTS, ceil(self.rate * LEAST_S)), MOST)
        return {"rate": self.rate, "requests": requests, **{name: value for name, value in given.items() if value}}


SEARCHED = 5
"""Seeds of generated load, one of which is searched; those after them confirm."""


def read_demand(source: Source, pool: Pool, requests: int) -> tuple[Demand, dict[str, Any]]:
    """The demand, and the workload section of a scenario that has it.

    pool: any replica of the model, since a trace may name its models. UserError for traffic that cannot be read or has
    no rate.
    """
    loaded = source.load(pool.device)
    traffic = Traffic(loaded, Cluster((pool,)))

    def make(seed: int) -> Workload:
        return _ended(traffic.make(seed), requests, loaded)

    try:
        made = [make(seed) for seed in range(1 if traffic.recorded else SEARCHED)]
    except ScenarioError as error:
        raise source.plain(error) from None
    _check_size(made[0])
    more = None if traffic.recorded else make
    return demand_of(made, name=source.name, requests=requests, make=more), resolved_workload(loaded)


def _check_size(workload: Workload) -> None:
    """Refuse traffic with which a single trial would take hours."""
    tokens = int(workload.prompt.sum(dtype="int64") + workload.output.sum(dtype="int64"))
    if tokens > MOST_TOKENS:
        raise UserError(
            f"traffic: {len(workload):,} requests of {tokens // len(workload):,} tokens are {tokens:.1e} tokens, above "
            f"the {MOST_TOKENS:.0e} that the search simulates; give fewer requests (--requests) or shorter ones"
        )


def _ended(workload: Workload, requests: int, loaded: Loaded) -> Workload:
    """Arrivals without an end are drawn for as long as the scenario runs, or until there are enough of them."""
    if workload.endless is None:
        return workload
    if loaded.scenario.run.until_s is not None:
        return workload.endless(loaded.scenario.run.until_s)
    tried = workload.endless(LEAST_S)
    return workload.endless(LEAST_S * max(1.0, requests / max(len(tried), 1)))
