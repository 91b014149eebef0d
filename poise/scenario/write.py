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


def write_json(told: Any, path: Path) -> None:
    """Write the result JSON, whole or not at all."""
    with replacing(path) as file:
        file.write(to_json(told).encode())


def put_json(told: Any, place: str | None) -> None:
    """JSON to where `--json` says: a file, standard output for `-`, or nowhere."""
    if place == "-":
        sys.stdout.write(to_json(told))
    elif place is not None:
        write_json(told, Path(place))


def write_folder(problem: Problem, outcome: Outcome, folder: Path) -> list[Path]:
    """Write everything about a result into `folder` and return the files."""
    from poise.report.html import html_report
    from poise.report.perfetto import timeline
    from poise.report.requests import save_requests

    files = [folder / "report.html", folder / "result.json", folder / "scenario.resolved.yaml"]
    conclusions = replace(about(problem, outcome.provenance), answer=outcome.answer)
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


def rate_of(told: dict[str, Any]) -> float | None:
    """The requests per second of a workload's summary; None where it has none: a closed load, sessions, a batch."""
    open_load = not told.get("concurrency") and told["independent"] == told["requests"]
    return float(told["rate"]) if open_load and told["rate"] is not None else None


def offered(told: dict[str, Any]) -> list[str]:
    """A workload in words: requests, rate, what was left out or changed, what a cache that never evicts would find."""
    from poise.report.wording import significant, write

    rate = rate_of(told)
    parts = [f"{told['requests']:,} requests"]
    parts += [f"at {significant(rate)} req/s"] if rate is not None else []
    if told["independent"] < told["requests"] and told["rate"] is not None:
        parts.append(f"of which {told['independent']:,} begin sessions, {significant(told['rate'])} a second")
    parts += [f"stamps squeezed by {each['squeeze']:g}" for each in told.get("changes", ()) if "squeeze" in each]
    skipped = told.get("skipped") or told.get("recorded_sessions", {}).get("skipped")
    parts += [f"{skipped:,} bad rows skipped"] if skipped else []
    if told.get("unmeasured_clients"):
        done = {"drop": "left out", "pool": "given the lengths of others"}[told["unmeasured"]]
        share = write(told["unmeasured_share"], "share")
        parts.append(f"{told['unmeasured_clients']} clients without lengths ({share} of the requests) {done}")
    if "reachable_hit_rate" in told:
        parts.append(f"reachable prefix hits {write(told['reachable_hit_rate'], 'share')}")
    return parts


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
