"""`poise compare` of a tournament: calibrate, screen, finals, show, write."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.errors import UserError
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Bars, Meter, silent
from poise.experiment.run import Shard
from poise.experiment.tournament.factor import reference
from poise.experiment.tournament.ledger import opened
from poise.experiment.tournament.result import Outcome
from poise.experiment.tournament.runner import TrialRunner
from poise.experiment.tournament.screen import finalists, screened
from poise.experiment.tournament.show import answer
from poise.experiment.workers import Workers, worker_pool
from poise.scenario.compare.parts import part_done
from poise.scenario.tournament.block import blocks
from poise.scenario.tournament.calibrate import calibrated
from poise.scenario.tournament.finals import played_out
from poise.scenario.tournament.read import TournamentQuestion, read
from poise.scenario.tournament.work import played, row, tasks
from poise.scenario.write import check_json, check_writable, put_json, write_json

if TYPE_CHECKING:
    from poise.scenario.options import CompareOptions


def tournament_file(options: CompareOptions, workers: Workers, shard: Shard | None = None) -> bool:
    """Run the tournament of a file, print and write it; returns whether it was interrupted."""
    _check(options)
    question = read(options.scenario, options.sets)
    with Bars() as bars:
        outcome = play(
            question,
            workers=workers,
            shard=shard,
            folder=options.out,
            resume=options.resume,
            progress=silent if options.quiet else bars,
        )
    if shard is not None:
        return part_done(options, shard, outcome.runs, outcome.interrupted)
    if not options.quiet and options.json != "-":
        from poise.experiment.tournament.show import show_outcome

        show_outcome(outcome)
    fields = {"answer": answer(outcome), **outcome.as_dict()}
    put_json(fields, options.json)
    if options.out is not None:
        write_json(fields, options.out / "result.json")
        if not options.quiet:
            where = sys.stderr if options.json == "-" else sys.stdout
            print(f"Wrote to {options.out}: result.json, runs.jsonl and the cells of finals/", file=where)
    return outcome.interrupted


def play(
    asked: TournamentQuestion,
    *,
    workers: Workers | None = None,
    shard: Shard | None = None,
    folder: Path | None = None,
    resume: bool = False,
    progress: Meter = silent,
) -> Outcome:
    """The whole tournament; Ctrl-C ends it with what is whole by then. The result does not depend on `workers`.

    shard: only that part of the short runs.
    """
    short, contest = blocks(asked), asked.contest
    ledger = opened(folder, resume=resume)
    outcome = Outcome(contest, short[0].by, interrupted=True)
    with interrupts() as stop, worker_pool(workers or Workers(), stop, played) as hands:
        runner = TrialRunner(short, ledger, hands, partial(tasks, short), partial(row, short), progress, shard)
        outcome.carried = calibrated(runner, short, reference(asked.factors), contest.seed)
        if not outcome.carried:
            return outcome
        outcome.screen = screened(runner, contest, outcome.carried)
        if outcome.screen is None or shard is not None:
            outcome.runs, outcome.interrupted = len(ledger.rows), stop.is_set()
            return outcome
        chosen = finalists(outcome.screen, asked.factors, asked.file.finals.finalists)
        loads = [[float(f"{each * own:.4g}") for each in asked.file.loads] for own in outcome.carried]
        long = blocks(asked, asked.file.finals.longer)
        outcome.finals = played_out(long, loads, chosen, asked.file.finals.seeds, hands, folder, progress)
        outcome.interrupted = outcome.finals is None
    return outcome


def _check(options: CompareOptions) -> None:
    """UserError for options that belong to a scenario, and for files that cannot be written."""
    given = {
        "--policies": options.policies, "--loads": options.loads, "--seeds": options.seeds, "--by": options.by,
        "--find-collapse": options.find_collapse, "--requests": options.requests,
        "--skip-bad": options.skip_bad, "--columns": options.columns,
    }  # fmt: skip
    for option, value in given.items():
        if value:
            raise UserError(
                f"{option}: {options.scenario} is a tournament, which says so itself; change the file, or --set"
            )
    if options.resume and options.out is None:
        raise UserError("--resume: needs a folder that keeps the runs; give --out DIR")
    check_json(options.json)
    if options.out is not None:
        check_writable(options.out, "--out", folder=True)
