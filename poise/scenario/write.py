"""The files of a result: JSON, report, timeline, requests and the resolved scenario."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.core.spec import Cluster, described
from poise.report.files import replacing, to_json
from poise.scenario.build import Problem
from poise.scenario.outcome import Outcome
from poise.workload.oddities import trace_line


def check_writable(path: Path, option: str, *, folder: bool = False) -> None:
    """Raise UserError, before any work is done, when `path` cannot be written; makes the folders that it needs."""
    home = path if folder else path.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        what = "a folder" if folder else "a file in a folder"
        why = error.strerror or str(error)
        raise UserError(f"{option} {path}: cannot be written ({why}); give {what} that you may write to") from None
    if not folder and path.is_dir():
        raise UserError(f"{option} {path}: is a folder; give the name of a file in it")


def check_json(place: str | None) -> None:
    """Raise UserError, before any work is done, when the file that `--json` names cannot be written."""
    if place is not None and place != "-":
        check_writable(Path(place), "--json")


def write_json(data: Any, path: Path) -> None:
    """Write the result JSON, whole or not at all."""
    with replacing(path) as file:
        file.write(to_json(data).encode())


def put_json(data: Any, place: str | None) -> None:
    """JSON to where `--json` says: a file, standard output for `-`, or nowhere."""
    if place == "-":
        sys.stdout.write(to_json(data))
    elif place is not None:
        write_json(data, Path(place))


def write_folder(problem: Problem, outcome: Outcome, folder: Path) -> list[Path]:
    """Write everything about a result into `folder` and return the files."""
    from poise.report.html import html_report
    from poise.report.perfetto import timeline
    from poise.report.requests import save_requests

    files = [folder / "report.html", folder / "result.json", folder / "scenario.resolved.yaml"]
    error = outcome.model_error.factors() if outcome.model_error else ""
    conclusions = replace(about(problem, outcome.provenance), answer=outcome.answer, model_error=error)
    _, *data = html_report(files[0], outcome.cases(problem.warmup_s), conclusions, data=True)
    write_json(outcome.as_dict(), files[1])
    write_resolved(outcome.provenance, files[2])
    if outcome.first is not None:
        files += [folder / "requests.parquet", folder / "timeline.json.gz"]
        first = outcome.first if outcome.blamed else replace(outcome.first, blame=None)
        save_requests(first, files[-2], outcome.workload)
        timeline(outcome.first, files[-1], cluster=problem.cluster)
    return files + data


def write_resolved(provenance: dict[str, Any], file: Path) -> None:
    """Write the resolved scenario with the rest of the provenance."""
    from poise.scenario.resolve import write_yaml

    rest = {name: value for name, value in provenance.items() if name != "scenario"}
    write_yaml({**provenance["scenario"], "provenance": rest}, file)


def rate_of(data: dict[str, Any]) -> float | None:
    """The requests per second of a workload's summary; None where it has none: a closed load, sessions, a batch."""
    open_load = not data.get("concurrency") and data["independent"] == data["requests"]
    return float(data["rate"]) if open_load and data["rate"] is not None else None


def offered(data: dict[str, Any]) -> list[str]:
    """A workload in words: requests, rate, what was left out or changed, what a cache that never evicts would find."""
    from poise.report.wording import significant, write

    if "lanes" in data:
        return [_laned(data), *_reachable(data)]
    rate = rate_of(data)
    parts = [f"{data['requests']:,} requests"]
    parts += [f"at {significant(rate)} req/s"] if rate is not None else []
    if data["independent"] < data["requests"] and data["rate"] is not None:
        parts.append(f"of which {data['independent']:,} begin sessions, {significant(data['rate'])} a second")
    parts += [f"stamps squeezed by {each['squeeze']:g}" for each in data.get("changes", ()) if "squeeze" in each]
    skipped = data.get("skipped") or data.get("recorded_sessions", {}).get("skipped")
    parts += [f"{skipped:,} bad rows skipped"] if skipped else []
    if data.get("unmeasured_clients"):
        done = {"drop": "left out", "pool": "given the lengths of others"}[data["unmeasured"]]
        share = write(data["unmeasured_share"], "share")
        parts.append(f"{data['unmeasured_clients']} clients without lengths ({share} of the requests) {done}")
    return [*parts, *_reachable(data)]


def _reachable(data: dict[str, Any]) -> list[str]:
    """What a cache that never evicts would find."""
    from poise.report.wording import write

    rate = data.get("reachable_hit_rate")
    return [] if rate is None else [f"reachable prefix hits {write(rate, 'share')}"]


def _laned(data: dict[str, Any]) -> str:
    """Conversations in lanes in words."""
    made = data["in_lanes"]
    lanes = f"{made['lanes']:,} lane{'s' if made['lanes'] > 1 else ''}"
    parts = f"{lanes} for {made['duration_s']:g} s of {made['of']:,} conversations"
    if made.get("left_out"):
        parts += f" ({made['left_out']:,} of more than {made['max_context']:,} tokens left out)"
    return parts if made["all"] else f"{parts}, no more than {made['plays']:,} of which fit into memory"


def about(problem: Problem, provenance: dict[str, Any]) -> Any:
    """The report's provenance of the figures."""
    from poise.report.html import About

    engine, costs = provenance["engine"], provenance["cost"]
    return About(
        title=f"{problem.loaded.name}: {describe(problem)}",
        belief=problem.belief,
        engine=f"{engine['model']} {engine['version']}",
        cost=costs[0]["estimator"]
        if len(costs) == 1
        else {f"pool {each['pool']}": each["estimator"] for each in costs},
        seeds=problem.seeds,
        slo=problem.slo,
        warmup_s=problem.warmup_s,
        workload=provenance["workload"],
        version=f"{provenance['poise']} ({provenance['core']} core)",
        pools=pool_names(problem.cluster),
        trace=trace_line(provenance["workload"]).removeprefix("Trace: "),
    )


def pool_names(cluster: Cluster) -> list[str]:
    """The name of each replica's pool where there are several: its name or role, numbered if pools share it."""
    if len(cluster.pools) == 1:
        return []
    names = [pool.name or pool.role for pool in cluster.pools]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names)]
    return [name for name, pool in zip(names, cluster.pools, strict=True) for _ in range(pool.slots)]


def describe(problem: Problem) -> str:
    """The cluster in a few words."""
    return described(problem.cluster)
