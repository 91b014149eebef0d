"""`poise compare` and `poise simulate` of a step file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.core.version import version
from poise.experiment.compare import Comparison, compare
from poise.experiment.progress import Bars
from poise.experiment.run import Shard
from poise.experiment.store import Store, check_free, check_same, digest
from poise.experiment.workers import Workers
from poise.report.files import replacing, to_json
from poise.scenario.compare.parts import part_done
from poise.scenario.read import parse_value
from poise.scenario.step.read import StepQuestion, read
from poise.scenario.step.show import as_dict, show_all, show_one
from poise.scenario.write import check_json, check_writable, put_json, write_json

if TYPE_CHECKING:
    from poise.scenario.options import CompareOptions, SimulateOptions
    from poise.scenario.override import Override

BASIS = "step.json"
"""The inputs of a folder's cells."""


def compare_steps(options: CompareOptions, workers: Workers, shard: Shard | None) -> bool:
    """Compare the layouts and schedules of a step file; returns whether it was interrupted."""
    _refuse(options.scenario, {
        "--policies": options.policies, "--loads": options.loads, "--find-collapse": options.find_collapse,
        "--requests": options.requests, "--skip-bad": options.skip_bad, "--columns": options.columns,
    })  # fmt: skip
    question = read(options.scenario, options.sets, list(_shorthands(options)))
    if options.resume and options.out is None:
        raise UserError("--resume: needs a folder that keeps the cells; give --out DIR")
    _check_places(options.json, options.out)
    store = None if options.out is None else _store(options.out, question, resume=options.resume)
    with Bars() as bars:
        comparison = compare(
            question.experiment,
            workers=workers.at_most(len(question.experiment.places())),
            shard=shard,
            store=store,
            progress=None if options.quiet else bars,
        )
    if shard is not None:
        return part_done(options, shard, len(comparison.cells), comparison.interrupted)
    if not options.quiet and options.json != "-":
        show_all(question, comparison)
    _write(question, comparison, options.json, options.out, options.quiet)
    return comparison.interrupted


def simulate_step(options: SimulateOptions) -> bool:
    """Simulate a step file that has one layout; returns whether it was interrupted."""
    _refuse(options.scenario, {
        "--router": options.routers, "--skip-bad": options.skip_bad, "--columns": options.columns,
        "--trace-events": options.trace_events,
        "--blame": options.blame,
    })  # fmt: skip
    more: list[Override] = []
    if options.seed is not None:
        more.append((("run", "seeds"), [parse_value(options.seed, f"--seed {options.seed}")], f"--seed {options.seed}"))
    question = read(options.scenario, options.sets, more)
    if (count := len(question.experiment.names) * len(question.experiment.settings)) > 1:
        raise UserError(f"{options.scenario}: has {count} steps; compare them by `poise compare`, or give one layout")
    _check_places(options.json, options.out)
    comparison = compare(question.experiment)
    if not options.quiet and options.json != "-" and comparison.complete:
        show_one(question, comparison)
    _write(question, comparison, options.json, options.out, options.quiet)
    return comparison.interrupted


def _refuse(file: Path, given: dict[str, Any]) -> None:
    """UserError for an option that has no meaning here."""
    for option, value in given.items():
        if value:
            raise UserError(f"{option}: has no part in a step of training, which {file} is; leave it")


def _shorthands(options: CompareOptions) -> Iterator[Override]:
    """Options that stand for a field of the file."""
    if options.seeds is not None:
        yield ("run", "seeds"), parse_value(options.seeds, f"--seeds {options.seeds}"), f"--seeds {options.seeds}"
    if options.by is not None:
        yield ("compare", "by"), options.by, f"--by {options.by}"


def _check_places(json: str | None, out: Path | None) -> None:
    """Check that the files can be written before any work is done."""
    check_json(json)
    if out is not None:
        check_writable(out, "--out", folder=True)


def _store(folder: Path, question: StepQuestion, *, resume: bool) -> Store:
    """Where the cells are kept; UserError where it has others that are not to be used, or cannot be."""
    common = _basis(question)
    study = question.experiment
    prints = {
        case.label: digest([common, case.parameters["layout"], repr(case.parameters["how"])]) for case in study.cases
    }
    store = Store(folder, prints, axis=study.axis)
    there = store.finished()
    check_free(folder, there, resume=resume)
    if there:
        check_same(folder, _before(folder / BASIS), common)
    with replacing(folder / BASIS) as file:
        file.write(to_json(common).encode())
    return store


def _before(file: Path) -> dict[str, Any]:
    import json

    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}); name another folder with --out") from None
    return found


def _basis(question: StepQuestion) -> dict[str, Any]:
    """The inputs of a cell's figures besides its layout, setting and seed."""
    fields = question.file.model_dump(mode="json", exclude={"layout", "schedule", "passes", "run", "compare"})
    return {"poise": version(), **fields}


def _write(question: StepQuestion, comparison: Comparison, json: str | None, out: Path | None, quiet: bool) -> None:
    fields = as_dict(question, comparison)
    put_json(fields, json)
    if out is not None:
        write_json(fields, out / "result.json")
        if not quiet:
            print(f"Wrote to {out}: result.json", file=sys.stderr if json == "-" else sys.stdout)
