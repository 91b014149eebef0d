"""`poise diff`: compares two results, two scenarios, or a scenario and a change of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.experiment.progress import Bars

if TYPE_CHECKING:
    from polars import DataFrame

    from poise.core.records.records import Run
    from poise.experiment.progress import Meter
    from poise.policies import Policies
    from poise.report.diff import Diff
    from poise.scenario.build import Problem
    from poise.workload import Workload

RESOLVED = "scenario.resolved.yaml"
REQUESTS = "requests.parquet"
YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its requests (as `requests_frame` gives them), its warm-up and its name."""

    name: str
    requests: DataFrame
    warmup_s: float


def compare(
    before: Path, after: Path | None, sets: list[str], progress: Meter | None = None
) -> tuple[Side, Side, Diff]:
    """Both sides and their difference; UserError says what cannot be compared, and why."""
    from poise.report.diff import diff

    if after is None and not sets:
        raise UserError(
            f"{before}: is compared with nothing; give a second result or scenario, or --set PATH=VALUE for B"
        )
    if after is not None and sets:
        raise UserError("--set makes B out of A, but B is given as well; drop one of the two")
    if sets and not _is_scenario(before):
        cure = f"give the scenario, as in {before / RESOLVED}" if before.is_dir() else "give the scenario that it is of"
        raise UserError(f"--set changes a scenario, and {before} is a result; {cure}")
    one = _side(before, [], progress)
    other = _side(after or before, sets, progress)
    return one, other, diff(one.requests, other.requests, warmup_s=max(one.warmup_s, other.warmup_s))


def show_difference(before: Path, after: Path | None, sets: list[str], json: str | None) -> None:
    """Compare two runs; print what came of it, or write it as JSON."""
    from poise.report.difference import sentence, show_diff
    from poise.scenario.write import check_json, put_json

    check_json(json)
    with Bars() as bars:
        one, other, diff = compare(before, after, sets, bars)
    put_json({"a": one.name, "b": other.name, "sentence": sentence(diff), **diff.as_dict()}, json)
    if json != "-":
        show_diff(diff, (one.name, other.name))


def _is_scenario(path: Path) -> bool:
    return path.suffix.lower() in YAML


def _side(path: Path, sets: list[str], progress: Meter | None) -> Side:
    if _is_scenario(path):
        return simulated(path, sets, progress)
    file = requests_file(path)
    return Side(str(path), read_requests(file), _warmup(file.parent))


def simulated(path: Path, sets: list[str], progress: Meter | None = None) -> Side:
    """The first seed of a scenario with one policy in each slot, simulated with blame."""
    from poise.report.requests import requests_frame
    from poise.scenario.build import build
    from poise.scenario.load import load
    from poise.scenario.run import only_bundle

    problem = build(load(path, sets))
    bundle, workload = only_bundle(problem), problem.traffic.make(problem.seeds[0])
    run = once(problem, bundle, workload, progress, blame=True)
    return Side(named(path, sets), requests_frame(run, workload), problem.warmup_s)


def once(
    problem: Problem, bundle: tuple[str, Policies], workload: Workload, progress: Meter | None, **keep: Any
) -> Run:
    """The first seed under one label's policies; KeyboardInterrupt where the user stops it."""
    from poise.scenario.run import first_seed

    label, policies = bundle
    meter = None if progress is None else partial(progress, label)
    run = first_seed(problem, policies, workload, progress=meter, **keep)
    if run.interrupted:
        raise KeyboardInterrupt
    return run


def named(path: Path, sets: list[str]) -> str:
    """A run as the command line gave it."""
    return " ".join([str(path), *(f"--set {each}" for each in sets)])


def requests_file(path: Path) -> Path:
    """The requests of a result: the file itself, or the one in the folder; UserError where it is not there."""
    if not path.exists():
        raise UserError(
            f"{path}: no such file or folder; give a result of `poise simulate --out DIR --blame`, or a scenario"
        )
    if not path.is_dir():
        return path
    if (path / REQUESTS).is_file():
        return path / REQUESTS
    raise UserError(f"{path}: has no {REQUESTS}; give a folder that `poise simulate --out DIR --blame` wrote")


def read_requests(file: Path) -> DataFrame:
    """The rows of a requests file; UserError for another file."""
    import polars as pl

    try:
        frame = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        message = str(error).splitlines()[0]
        raise UserError(
            f"{file}: is not a Parquet file ({message}); give one that `poise simulate --out DIR` wrote"
        ) from None
    if not {"request", "status", "prompt_tokens"} <= set(frame.columns):
        raise UserError(f"{file}: has no rows of requests; give one that `poise simulate --out DIR` wrote")
    return frame


def _warmup(folder: Path) -> float:
    """The warm-up of the scenario next to a result, so that it is left out of both."""
    from poise.scenario.load import load

    file = folder / RESOLVED
    return load(file).scenario.run.warmup_s if file.is_file() else 0.0
