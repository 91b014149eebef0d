"""The command `poise simulate` and its relatives after their options are parsed: load, run, show, write."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from poise.core.errors import UserError
from poise.core.spec import Slo
from poise.experiment.progress import Bars

if TYPE_CHECKING:
    from poise.core.records.trace import Trace
    from poise.scenario.build import Problem
    from poise.scenario.compare.comparison import Comparison
    from poise.scenario.demo import Demo
    from poise.scenario.options import SimulateOptions
    from poise.scenario.outcome import Outcome
    from poise.scenario.override import Override


def simulate_file(options: SimulateOptions) -> bool:
    """Simulate a scenario file, print and write the results; returns whether it was interrupted."""
    from poise.scenario.build import build
    from poise.scenario.idle import check_idle
    from poise.scenario.load import load
    from poise.scenario.run import Keep, run
    from poise.scenario.step.read import is_step

    if is_step(options.scenario):
        from poise.scenario.step.command import simulate_step

        return simulate_step(options)
    problem = build(load(options.scenario, options.sets, list(_shorthands(options))))
    check_idle(problem)
    _check_places(options)
    with Bars() as bars, _recorder(options.trace_events, problem) as trace:
        keep = Keep(timeline=options.out is not None, trace=trace, blame=options.blame)
        outcome = run(problem, keep=keep, progress=None if options.quiet else bars)
    if not options.quiet and options.json != "-":
        _show(problem, outcome)
    _write(options, problem, outcome)
    return outcome.interrupted


def _shorthands(options: SimulateOptions) -> Iterator[Override]:
    """Options that stand for a field of the scenario."""
    from poise.scenario.override import of_trace
    from poise.scenario.read import parse_value

    if len(options.routers) > 1:
        names = ",".join(options.routers)
        raise UserError(
            f"--router: a run has one router; give one, or compare them by `poise compare --policies {names}`"
        )
    for name in options.routers:
        yield ("policies", "router"), parse_value(name, f"--router {name}"), f"--router {name}"
    if options.seed is not None:
        yield ("run", "seeds"), [parse_value(options.seed, f"--seed {options.seed}")], f"--seed {options.seed}"
    yield from of_trace(options.skip_bad, options.columns)


def _check_places(options: SimulateOptions) -> None:
    """Check that the files can be written before any work is done."""
    from poise.scenario.write import check_json, check_writable

    check_json(options.json)
    if options.out is not None:
        check_writable(options.out, "--out", folder=True)
        if (options.out / "cells").is_dir():
            raise UserError(
                f"--out {options.out}: has a comparison, whose report a run would replace; give another folder"
            )
    if options.trace_events is not None:
        check_writable(options.trace_events, "--trace-events")


@contextmanager
def _recorder(path: Path | None, problem: Problem) -> Iterator[Trace | None]:
    """A trace that streams to `path`, or None."""
    if path is None:
        yield None
        return
    from poise.core.records.trace import Trace
    from poise.report.files import replacing
    from poise.scenario.record import trace_header

    with replacing(path) as file:
        text: IO[str] = io.TextIOWrapper(file, encoding="utf-8", write_through=False)
        yield Trace(trace_header(problem), text)
        text.flush()
        text.detach()  # type: ignore[attr-defined]


def _show(problem: Problem, outcome: Outcome) -> None:
    """Print the figures."""
    from poise.report.blame import show_blame
    from poise.report.table import show_run
    from poise.report.wording import belief_line, slo_line
    from poise.scenario.write import describe, offered
    from poise.workload.oddities import trace_line

    title = describe(problem) + (" (interrupted: partial)" if outcome.interrupted else "")
    if (result := outcome.result()) is not None:
        print(f"{outcome.answer}\n")
        show_run(result, title=f"{title}, {outcome.policies}")
        show_blame([(outcome.policies, result)])
    print(f"Load: {', '.join(offered(outcome.provenance['workload']))}.")
    if problem.slo != Slo():
        print(f"SLO: {slo_line(problem.slo)}.")
    if result is not None and outcome.model_error is not None:
        print(outcome.model_error.line(result))
    if line := trace_line(outcome.provenance["workload"]):
        print(line)
    print(belief_line(problem.belief))


def _write(options: SimulateOptions, problem: Problem, outcome: Outcome) -> None:
    """Write the JSON and the folder."""
    from poise.report.tidy import in_short
    from poise.scenario.write import put_json, write_folder

    put_json(outcome.as_dict(), options.json)
    if options.out is not None:
        files = write_folder(problem, outcome, options.out)
        if not options.quiet:
            text = f"Wrote to {options.out}: {', '.join(in_short(files, options.out))}"
            print(text, file=sys.stderr if options.json == "-" else sys.stdout)


def show_demo(
    trace: Path | None, out: Path, skip_bad: bool, columns: str | None = None, *, quiet: bool = False
) -> bool:
    """Run the demo, print its tables and the paths of its files unless `quiet`; returns whether it was interrupted."""
    from poise.scenario.demo import demo
    from poise.scenario.write import check_writable
    from poise.workload.readers.named import parse_columns

    check_writable(out, "--out", folder=True)
    planned = demo(trace, skip_bad=skip_bad, columns=None if columns is None else parse_columns(columns))
    with Bars() as bars:
        comparison = planned.run(None if quiet else bars)
    if not quiet:
        _show_demo(planned, comparison)
    if comparison.interrupted:
        return True
    report, timeline = planned.write(comparison, out)
    if not quiet:
        print(f"Report:   {report} (open it in a browser; it needs no network)")
        print(f"Figures:  {out / 'figures.csv'}, figures.parquet and figures/*.svg beside it")
        print(f"Timeline: {timeline} (drop it on https://ui.perfetto.dev, which keeps it on your machine)")
    return False


def _show_demo(planned: Demo, comparison: Comparison) -> None:
    from poise.scenario.compare.show import show_all
    from poise.scenario.demo import title

    show_all(comparison, title=title(planned.cluster), one=planned.one)


def show_listing(what: str, json: str | None) -> None:
    """Print what Poise knows by name, or write it as JSON to a file or standard output (`-`)."""
    from poise.scenario.listing import LISTINGS

    listing = LISTINGS[what]()
    if json is not None:
        from poise.scenario.write import check_json, put_json

        check_json(json)
        put_json(listing.data, json)
    if json != "-":
        listing.show()
