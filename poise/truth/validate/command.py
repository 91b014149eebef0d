"""`poise validate` once its options are read."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.experiment.meter import Bars
from poise.experiment.workers import workers_of
from poise.report.files import replacing
from poise.scenario.write import check_writable
from poise.truth.spoken import spoken
from poise.truth.validate.against import TOLERANCE, read_scores, worse
from poise.truth.validate.expected import spread
from poise.truth.validate.folder import Answered, answer_folder
from poise.truth.validate.regret import regrets
from poise.truth.validate.rowfile import write_answers
from poise.truth.validate.score import Score, scores
from poise.truth.validate.training.score import training_scores

SHOWN = 5
"""Rows that cannot be read which are named; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `poise validate`; `json` is a file or `-`."""

    folder: Path | None = None
    json: str | None = None
    against: Path | None = None
    page: Path | None = None
    answers: Path | None = None
    spread: Path | None = None
    jobs: str | None = None
    ray: str | None = None
    quiet: bool = False


def validate_folder(wish: Wish) -> bool:
    """Answer what a folder holds, print and write what was asked for; returns whether accuracy fell."""
    workers = workers_of(wish.jobs, wish.ray)
    before = read_scores(wish.against) if wish.against is not None else None
    _check_places(wish)
    with Bars() as bars:
        found = answer_folder(_folder(wish), workers, None if wish.quiet else bars)
    scored = [*scores(found.answers), *found.operators, *regrets(found.answers)]
    if found.training:
        scored += training_scores(found.training)
    _say_faults(found)
    if not wish.quiet and wish.json != "-":
        from poise.truth.validate.show import show_scores

        show_scores(found.answers, found.peers, found.operators)
        if found.training:
            from poise.truth.validate.training.show import show_training

            show_training(found.training)
        for line in found.profiles:
            print(line)
    _write(wish, found, scored)
    fell = worse(scored, before) if before is not None else []
    for line in fell:
        print(f"worse than in {wish.against}: {line}", file=sys.stderr)
    if before is not None and not fell and not wish.quiet:
        print(f"No group is worse than in {wish.against} by more than {TOLERANCE:.0%}.", file=spoken(wish.json))
    return bool(fell)


def _folder(wish: Wish) -> Path:
    if wish.folder is not None:
        return wish.folder
    named = os.environ.get("POISE_DATA")
    if not named:
        raise UserError("no folder of measurements is given; give one, or set POISE_DATA")
    return Path(named)


def _check_places(wish: Wish) -> None:
    """Find out what cannot be written before any work is done."""
    if wish.json is not None and wish.json != "-":
        check_writable(Path(wish.json), "--json")
    if wish.answers is not None:
        check_writable(wish.answers, "--answers")
    if wish.spread is not None:
        check_writable(wish.spread, "--spread")
    if wish.page is not None:
        check_writable(wish.page, "--out", folder=True)


def _say_faults(found: Answered) -> None:
    for line in found.faults[:SHOWN]:
        print(f"not read: {line}", file=sys.stderr)
    if len(found.faults) > SHOWN:
        print(f"not read: {len(found.faults) - SHOWN} more rows", file=sys.stderr)


def _write(wish: Wish, found: Answered, scored: list[Score]) -> None:
    rows = [score.as_dict() for score in scored]
    if wish.json == "-":
        sys.stdout.write(_text(rows))
    elif wish.json is not None:
        with replacing(Path(wish.json)) as file:
            file.write(_text(rows).encode())
    if wish.answers is not None:
        write_answers(found.answers, wish.answers, found.training)
    if wish.spread is not None:
        with replacing(wish.spread) as file:
            file.write((json.dumps(spread(found.answers), indent=1) + "\n").encode())
    if wish.page is not None:
        from poise.truth.validate.page import write_page

        path = write_page(found, wish.page)
        if not wish.quiet:
            print(f"Wrote {path}", file=spoken(wish.json))


def _text(rows: list[dict[str, Any]]) -> str:
    """One score a line, so that two files can be compared by eye."""
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False, ensure_ascii=False) for row in rows) + "\n]\n"
