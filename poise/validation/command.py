"""The command `poise validate` after its options are parsed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.cost.tables import load_tables
from poise.experiment.progress import Bars
from poise.experiment.workers import workers_of
from poise.recordings.output import spoken
from poise.report.files import replacing
from poise.scenario.write import check_json, check_writable
from poise.validation.against import TOLERANCE, read_scores, worse
from poise.validation.folder import Answered, answer_folder
from poise.validation.regret import regrets
from poise.validation.rowfile import write_answers
from poise.validation.score import Score, scores
from poise.validation.summary import show_summary
from poise.validation.training.score import training_scores

if TYPE_CHECKING:
    from poise.scenario.options import ValidateOptions

SHOWN = 5
"""Unreadable rows that are named; the rest are counted."""


def validate_folder(options: ValidateOptions) -> bool:
    """Answer the measurements of a folder, print and write the result; returns whether accuracy fell."""
    workers = workers_of(options.jobs, options.ray)
    before = read_scores(options.against) if options.against is not None else None
    _check_places(options)
    with Bars(lines=not options.quiet) as bars:
        found = answer_folder(_folder(options), workers, None if options.quiet else bars, tables=_operators(options))
    scored = [*scores(found.answers), *found.operators, *regrets(found.answers)]
    if found.training:
        scored += training_scores(found.training)
    _list_faults(found)
    if not options.quiet and options.json != "-":
        (_show_tables if options.tables else show_summary)(found)
    _write(options, found, scored)
    fell = worse(scored, before) if before is not None else []
    for line in fell:
        print(f"worse than in {options.against}: {line}", file=sys.stderr)
    if before is not None and not fell and not options.quiet:
        print(f"No group is worse than in {options.against} by more than {TOLERANCE:.0%}.", file=spoken(options.json))
    return bool(fell)


def _show_tables(found: Answered) -> None:
    """Every table."""
    from poise.validation.show import show_scores
    from poise.validation.training.show import show_training

    show_scores(found.answers, found.peers, found.operators)
    if found.training:
        show_training(found.training)
    for line in found.profiles:
        print(line)
    for name in found.unread:
        print(f"not read: {name}")


def _operators(options: ValidateOptions) -> str:
    """The file of operator tables, found to be one; "" for those that ship."""
    if options.operators is None:
        return ""
    load_tables(options.operators)
    return str(options.operators.resolve())


def _folder(options: ValidateOptions) -> Path:
    if options.folder is not None:
        return options.folder
    named = os.environ.get("POISE_DATA")
    if not named:
        raise UserError("no folder of measurements is given; give one, or set POISE_DATA")
    return Path(named)


def _check_places(options: ValidateOptions) -> None:
    """Check that the files can be written before any work is done."""
    check_json(options.json)
    if options.answers is not None:
        check_writable(options.answers, "--answers")
    if options.page is not None:
        check_writable(options.page, "--out", folder=True)


def _list_faults(found: Answered) -> None:
    for line in found.faults[:SHOWN]:
        print(f"not read: {line}", file=sys.stderr)
    if len(found.faults) > SHOWN:
        print(f"not read: {len(found.faults) - SHOWN} more rows", file=sys.stderr)


def _write(options: ValidateOptions, found: Answered, scored: list[Score]) -> None:
    rows = [score.as_dict() for score in scored]
    if options.json == "-":
        sys.stdout.write(_text(rows))
    elif options.json is not None:
        with replacing(Path(options.json)) as file:
            file.write(_text(rows).encode())
    if options.answers is not None:
        write_answers(found.answers, options.answers, found.training)
    if options.page is not None:
        from poise.validation.page import write_page

        path = write_page(found, options.page)
        if not options.quiet:
            print(f"Wrote {path}", file=spoken(options.json))


def _text(rows: list[dict[str, Any]]) -> str:
    """One score a line, so that two files can be compared by eye."""
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False, ensure_ascii=False) for row in rows) + "\n]\n"
