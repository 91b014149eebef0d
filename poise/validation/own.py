"""Measurements of one's own: a table of measured points, answered, says how far off predictions of them are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log
from pathlib import Path

from poise.core.errors import UserError
from poise.intervals.own import Deployment, Found, Own, deployment, save_own
from poise.intervals.shipped import interval_of
from poise.report.wording import significant
from poise.scenario.write import check_writable
from poise.validation.answer import Answer, answer_rows
from poise.validation.evidence import conditions_of
from poise.validation.row import read_rows


def calibrate_points(table: Path, out: Path | None, quiet: bool) -> None:
    """Answer the points of a table, print how far off the answers are, and write that for `poise plan --own`.

    UserError where no row can be answered.
    """
    if out is None:
        raise UserError("--points: what they say goes to a file; give --out FILE")
    check_writable(out, "--out")
    rows, faults = read_rows(table)
    answers = answer_rows(rows)
    unanswered = [f"{each.row.place}: {each.why}" for each in answers if not each.predicted]
    own = own_of(answers)
    if not own.found:
        first = [*faults, *unanswered, "the table has no rows"][0]
        raise UserError(f"{table}: no row is answered ({first}); give rows as `poise validate` reads them")
    save_own(own, out)
    if not quiet:
        lines = [f"not read: {each}" for each in [*faults, *unanswered]]
        print("\n".join([*lines, *map(_line, own.found), f"Wrote {out}; poise plan reads it by --own {out}"]))


def own_of(answers: Sequence[Answer]) -> Own:
    """What answers say of their deployments: by how much measured times lie above the middle of their intervals."""
    logs: dict[Deployment, list[float]] = defaultdict(list)
    for each in answers:
        if each.predicted:
            of = conditions_of(each)
            off = log(each.row.value / each.predicted) - log(interval_of(of).factor(0.5))
            logs[deployment(of)].append(of.slower * off)
    return Own(tuple(Found(of, len(some), sum(some) / len(some)) for of, some in logs.items()))


def _line(found: Found) -> str:
    of = found.deployment
    return (
        f"{of.figure} of {of.model} {of.weights} on {of.device}, {of.engine}: {found.rows} measured, "
        f"{significant(exp(found.log), 3)} times the time that is expected"
    )
