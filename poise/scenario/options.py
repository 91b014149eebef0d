"""The options of the commands that read a scenario or a gateway file, and those that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

Jobs = Annotated[str | None, typer.Option(metavar="N", help="Worker processes; default: one per processor.")]
Ray = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Use a Ray cluster instead; local starts one.")]
"""Worker options, spelled the same in every command that runs many simulations."""

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")]
By = Annotated[str | None, typer.Option(metavar="FIGURE", help="Metric that ranks the policies, as in ttft_s.p99.")]
ScenarioFile = Annotated[Path, typer.Argument(help="The scenario, a YAML file.", metavar="SCENARIO.yaml")]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="PATH=VALUE", help="Change a field, as in cluster.pools.0.replicas=16."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows of a trace and count them.")]

Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="FIELD=COLUMN,…", help="Name columns of the trace, as in arrival_s=created."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The options of `poise simulate`; `json` is a file or `-`."""

    scenario: ScenarioFile
    sets: Sets = field(default_factory=list)
    routers: Annotated[list[str], typer.Option("--router", metavar="NAME", help="Router to use.")] = field(
        default_factory=list
    )
    seed: Annotated[str | None, typer.Option(metavar="N", help="Random seed; replaces those of the scenario.")] = None
    skip_bad: SkipBad = False
    columns: Columns = None
    json: Json = None
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report, JSON, timeline, requests and resolved scenario.")
    ] = None
    trace_events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record events and actions of the first seed.")
    ] = None
    quiet: Quiet = False
    blame: Annotated[bool, typer.Option("--blame", help="Attribute the time of each request to its causes.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The options of `poise compare`; `json` is a file or `-`."""

    scenario: ScenarioFile
    policies: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Routers to compare, as in round_robin,prefix_cache.")
    ] = None
    loads: Annotated[
        str | None, typer.Option(metavar="X,Y,…", help="Multiples of the workload's rate, as in 0.5,1,2.")
    ] = None
    seeds: Annotated[str | None, typer.Option(metavar="N", help="Number of seeds, or a list, as in [3,7].")] = None
    by: By = None
    find_collapse: Annotated[
        bool, typer.Option("--find-collapse", help="Find the highest load that each policy carries.")
    ] = False
    jobs: Jobs = None
    ray: Ray = None
    sets: Sets = field(default_factory=list)
    skip_bad: SkipBad = False
    columns: Columns = None
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report, JSON, resolved scenario and every cell.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Reuse the cells that DIR already holds.")] = False
    requests: Annotated[bool, typer.Option("--requests", help="Write a row for each request of each cell.")] = False
    json: Json = None
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run only part I of N into DIR, for `poise merge`.")
    ] = None
    quiet: Quiet = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `poise serve`."""

    file: Annotated[
        Path | None, typer.Argument(help="The gateway file.", metavar="[GATEWAY.yaml]", show_default=False)
    ] = None
    engines: Annotated[
        list[str], typer.Option("--engine", metavar="URL", help="URL of an engine; repeat for several.")
    ] = field(default_factory=list)
    router: Annotated[str | None, typer.Option(metavar="NAME", help="The router.")] = None
    shadow: Annotated[
        str | None,
        typer.Option(metavar="router=NAME", help="A second router whose decisions are recorded, not executed."),
    ] = None
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all.")] = None
    port: Annotated[str | None, typer.Option(metavar="N", help="Port for clients.")] = None
    admin_port: Annotated[str | None, typer.Option(metavar="N", help="Port of the page and /metrics.")] = None
    workers: Annotated[str | None, typer.Option(metavar="N", help="Processes that serve the port together.")] = None
    record: Annotated[str | None, typer.Option(metavar="FILE", help="Record to FILE (.jsonl or .parquet).")] = None
    sets: Annotated[
        list[str], typer.Option("--set", metavar="PATH=VALUE", help="Change a field, as in limits.held_s=30.")
    ] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of `poise demo-live`."""

    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the recording.")] = Path("demo-live-out")
    router: Annotated[str, typer.Option(metavar="NAME", help="The router.")] = "prefix_cache"
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Seconds of traffic; default: until Ctrl-C.", min=1.0)
    ] = None
    port: Annotated[int, typer.Option(metavar="N", help="Port for clients; 0 takes a free one.")] = 8000
    admin_port: Annotated[int, typer.Option(metavar="N", help="Port of the page; 0 takes a free one.")] = 8001
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """The options of `poise validate`, which the wheel of Poise knows without its code; `json` is a file or `-`."""

    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of measurements; default: POISE_DATA.", metavar="[DIR]", show_default=False),
    ] = None
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the scores as JSON; - for standard output.")
    ] = None
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scores of an earlier run; exit code 1 if a group got worse.")
    ] = None
    page: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page of predicted over measured.")
    ] = None
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every prediction as a CSV table.")] = None
    tables: Annotated[bool, typer.Option("--tables", help="Print every table: by source, device and operator.")] = False
    operators: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer by operator tables of poise calibrate --profiles."),
    ] = None
    jobs: Jobs = None
    ray: Ray = None
    quiet: Quiet = False
