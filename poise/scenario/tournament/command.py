"""`poise compare` of a tournament: calibrate, screen, finals, show, write."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.errors import UserError
from poise.experiment.interrupts import interrupts
from poise.experiment.meter import Bars, Meter, silent
from poise.experiment.run import Shard
from poise.experiment.tournament.factor import reference
from poise.experiment.tournament.hall import Hall
from poise.experiment.tournament.ledger import opened
from poise.experiment.tournament.result import Outcome
from poise.experiment.tournament.screen import finalists, screened
from poise.experiment.workers import Workers, crew
from poise.scenario.tournament.block import blocks
from poise.scenario.tournament.calibrate import calibrated
from poise.scenario.tournament.finals import played_out
from poise.scenario.tournament.read import Asked, read
from poise.scenario.tournament.work import played, row, tasks
from poise.scenario.write import check_writable, put_json, write_json

if TYPE_CHECKING:
    from poise.scenario.compare.command import Wish


def tournament_file(wish: Wish, workers: Workers, shard: Shard | None = None) -> bool:
    """Run the tournament that a file asks for, print and write it; returns whether it was interrupted."""
    _check(wish)
    asked = read(wish.scenario, wish.sets)
    with Bars() as bars:
        outcome = play(
            asked,
            workers=workers,
            shard=shard,
            folder=wish.out,
            resume=wish.resume,
            meter=silent if wish.quiet else bars,
        )
    if shard is not None:
        from poise.scenario.compare.command import part_done

        return part_done(wish, shard, outcome.runs, outcome.interrupted)
    if not wish.quiet and wish.json != "-":
        from poise.experiment.tournament.show import show_outcome

        show_outcome(outcome)
    put_json(outcome.as_dict(), wish.json)
    if wish.out is not None:
        write_json(outcome.as_dict(), wish.out / "result.json")
        if not wish.quiet:
            where = sys.stderr if wish.json == "-" else sys.stdout
            print(f"Wrote to {wish.out}: result.json, runs.jsonl and the cells of finals/", file=where)
    return outcome.interrupted


def play(
    asked: Asked,
    *,
    workers: Workers | None = None,
    shard: Shard | None = None,
    folder: Path | None = None,
    resume: bool = False,
    meter: Meter = silent,
) -> Outcome:
    """The whole tournament; Ctrl-C ends it with what is whole by then. The result does not depend on `workers`.

    shard: only that part of the short runs.
    """
    short, contest = blocks(asked), asked.contest
    ledger = opened(folder, resume=resume)
    outcome = Outcome(contest, short[0].by, interrupted=True)
    with interrupts() as stop, crew(workers or Workers(), stop, played) as hands:
        hall = Hall(short, ledger, hands, partial(tasks, short), partial(row, short), meter, shard)
        outcome.carried = calibrated(hall, short, reference(asked.factors), contest.seed)
        if not outcome.carried:
            return outcome
        outcome.screen = screened(hall, contest, outcome.carried)
        if outcome.screen is None or shard is not None:
            outcome.runs, outcome.interrupted = len(ledger.rows), stop.is_set()
            return outcome
        chosen = finalists(outcome.screen, asked.factors, asked.file.finals.finalists)
        loads = [[float(f"{each * own:.4g}") for each in asked.file.loads] for own in outcome.carried]
        long = blocks(asked, asked.file.finals.longer)
        outcome.finals = played_out(long, loads, chosen, asked.file.finals.seeds, hands, folder, meter)
        outcome.interrupted = outcome.finals is None
    return outcome


def _check(wish: Wish) -> None:
    """UserError for options that belong to a scenario, and for what cannot be written."""
    given = {
        "--policies": wish.policies, "--loads": wish.loads, "--seeds": wish.seeds, "--by": wish.by,
        "--find-collapse": wish.find_collapse, "--requests": wish.requests, "--skip-bad": wish.skip_bad,
    }  # fmt: skip
    for option, value in given.items():
        if value:
            raise UserError(
                f"{option}: {wish.scenario} is a tournament, which says so itself; change the file, or --set"
            )
    if wish.resume and wish.out is None:
        raise UserError("--resume: needs a folder that keeps the runs; give --out DIR")
    if wish.json is not None and wish.json != "-":
        check_writable(Path(wish.json), "--json")
    if wish.out is not None:
        check_writable(wish.out, "--out", folder=True)
