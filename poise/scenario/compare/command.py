"""The command `poise compare` after its options are parsed: load, run, show, write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.errors import UserError
from poise.experiment.progress import Bars
from poise.experiment.run import shard_of
from poise.experiment.workers import workers_of
from poise.scenario.build import Problem, build
from poise.scenario.checks import decides_by
from poise.scenario.combination import check_kept
from poise.scenario.compare.folder import RESOLVED, opened
from poise.scenario.compare.parts import part_done
from poise.scenario.compare.run import run
from poise.scenario.compare.study import SEEDS, Setting, Study
from poise.scenario.idle import check_idle
from poise.scenario.load import load
from poise.scenario.override import Override, of_trace
from poise.scenario.read import parse_value
from poise.scenario.resolve import provenance
from poise.scenario.step.read import is_step
from poise.scenario.tournament.read import is_tournament
from poise.scenario.write import about, check_json, check_writable, put_json, write_json

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison
    from poise.scenario.options import CompareOptions


def compare_file(options: CompareOptions) -> bool:
    """Compare the policies of a scenario file, print and write the results; returns whether it was interrupted."""
    workers, shard = workers_of(options.jobs, options.ray), shard_of(options.shard)
    if shard is not None and options.out is None:
        raise UserError(f"--shard {options.shard}: needs a folder that keeps the part; give --out DIR")
    if is_tournament(options.scenario):
        from poise.scenario.tournament.command import tournament_file

        return tournament_file(options, workers, shard)
    if is_step(options.scenario):
        from poise.scenario.step.command import compare_steps

        return compare_steps(options, workers, shard)
    problem = _seeded(build(load(options.scenario, options.sets, list(_shorthands(options)))))
    check_idle(problem)
    _check_places(options)
    study = study_of(problem)
    first = problem.traffic.make(problem.seeds[0])
    for _, policies in problem.bundles:
        check_kept(policies.cache, problem.cluster.pools, first, problem.until_s)
    facts = provenance(problem, first)
    store = None if options.out is None else opened(options.out, problem, facts, resume=options.resume)
    with Bars() as bars:
        comparison = run(
            study,
            workers=workers.at_most(len(study.places())),
            shard=shard,
            store=store,
            requests=options.requests,
            draw=store is not None,
            find_collapse=options.find_collapse,
            progress=None if options.quiet else bars,
        )
    if shard is not None:
        return part_done(options, shard, len(comparison.cells), comparison.interrupted)
    comparison.provenance = facts
    _print(options, problem, comparison)
    return comparison.interrupted


def study_of(problem: Problem) -> Study:
    """The study of a scenario."""
    section = problem.loaded.scenario.compare
    return Study(
        setting=Setting(
            problem.cluster,
            problem.cost,
            problem.belief,
            problem.slo,
            problem.warmup_s,
            problem.until_s,
            problem.drain,
        ),
        policies=dict(problem.bundles),
        make=problem.traffic.make,
        recorded=problem.traffic.from_trace,
        by=decides_by(problem.loaded.scenario),
        loads=tuple(section.loads),
        seeds=tuple(problem.seeds),
        target=section.target,
    )


def _seeded(problem: Problem) -> Problem:
    """The problem with several seeds, where their number is not given and they change something."""
    given = "seeds" in problem.loaded.scenario.run.model_fields_set
    return problem if given or problem.traffic.from_trace else replace(problem, seeds=list(range(SEEDS)))


def _shorthands(options: CompareOptions) -> Iterator[Override]:
    """Options that stand for a field of the scenario."""
    for option, text, path in (
        ("policies", options.policies, ("policies", "router")),
        ("loads", options.loads, ("compare", "loads")),
    ):
        if text is not None:
            yield path, parse_value(f"[{text}]", f"--{option} {text}"), f"--{option} {text}"
    if options.seeds is not None:
        yield ("run", "seeds"), parse_value(options.seeds, f"--seeds {options.seeds}"), f"--seeds {options.seeds}"
    if options.by is not None:
        yield ("compare", "by"), options.by, f"--by {options.by}"
    yield from of_trace(options.skip_bad, options.columns)


def _check_places(options: CompareOptions) -> None:
    """Check that the files can be written before any work is done."""
    for option, given in (("--resume", options.resume), ("--requests", options.requests)):
        if given and options.out is None:
            raise UserError(f"{option}: needs a folder that keeps the cells; give --out DIR")
    check_json(options.json)
    if options.out is not None:
        check_writable(options.out, "--out", folder=True)


def _print(options: CompareOptions, problem: Problem, comparison: Comparison) -> None:
    """Print and write the results."""
    if not options.quiet and options.json != "-":
        from poise.scenario.compare.show import show_all
        from poise.scenario.write import describe

        show_all(comparison, title=describe(problem))
    put_json(comparison.as_dict(), options.json)
    if options.out is not None:
        _write(problem, comparison, options.out)
        if not options.quiet:
            data = "figures.csv, figures.parquet, figures/"
            files = f"report.html, result.json, {data}, {RESOLVED} and {len(comparison.cells)} cells in cells/"
            print(f"Wrote to {options.out}: {files}", file=sys.stderr if options.json == "-" else sys.stdout)


def _write(problem: Problem, comparison: Comparison, folder: Path) -> None:
    from poise.report.html import html_report
    from poise.scenario.compare.findings import findings

    write_json(comparison.as_dict(), folder / "result.json")
    if comparison.cells:
        conclusions = replace(about(problem, comparison.provenance), model_error=comparison.model_error.factors())
        html_report(folder / "report.html", comparison.cases(), conclusions, findings(comparison), data=True)
