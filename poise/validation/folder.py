"""All measurements of a folder, answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from poise.core.errors import UserError
from poise.experiment.progress import Meter
from poise.experiment.workers import Workers
from poise.recordings.profiles.read import LAYOUTS, any_profiles
from poise.validation.answer import Answer, answer_rows
from poise.validation.borrow import borrow
from poise.validation.contradict import contradicted
from poise.validation.operators import operator_scores
from poise.validation.peer import read_peers
from poise.validation.replay import SOURCE, replay
from poise.validation.row import read_rows
from poise.validation.score import Score
from poise.validation.stage import FILE, read_stages
from poise.validation.training.answer import Answer as Trained
from poise.validation.training.answer import answers as answer_training
from poise.validation.training.answer import read_runs
from poise.validation.unread import unread

TABLE = Path("fidelity") / "serving_e2e.csv"
TRAINING = (Path("fidelity_training"), Path("training_iteration_times"))


@dataclass(slots=True)
class Answered:
    """Answers to all rows of a folder.

    faults: a line for each row that could not be read.  peers: published errors by metric and simulator.
    operators: scores of single operators.  profiles: what was read of their profiles, and what was left out.
    training: answers to measured training runs.  unread: tables of the folder that are not read.
    """

    answers: list[Answer] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    peers: dict[str, dict[str, float]] = field(default_factory=dict)
    operators: list[Score] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    training: list[Trained] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def answer_folder(
    folder: Path,
    workers: Workers | None = None,
    progress: Meter | None = None,
    *,
    operators: bool = True,
    tables: str = "",
) -> Answered:
    """Answers to every measurement below `folder`, whichever of the known files are there; UserError where none is.

    operators: whether single operators are scored too.  tables: a file of operator tables; "" takes those that ship.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: is not a folder; give the folder of measurements, or set POISE_DATA")
    found = Answered(peers=read_peers(folder), unread=unread(folder))
    table = next((path for path in (folder / TABLE, folder / TABLE.name) if path.is_file()), None)
    runs = sorted(path.parent for path in (folder / SOURCE).glob("*/requests.jsonl.gz"))
    profiled = any_profiles(folder)
    trained, broken = read_runs(folder)
    if table is None and not runs and not (folder / FILE).is_file() and not profiled and not (trained or broken):
        looked = f"{TABLE}, {SOURCE}/RUN/, {FILE}, training runs in {', '.join(map(str, TRAINING))} "
        looked += f"and operator profiles in {', '.join(LAYOUTS)}"
        raise UserError(f"{folder}: holds no measurements; looked for {looked}")
    if table is not None:
        rows, found.faults = read_rows(table)
        found.answers += answer_rows(borrow(contradicted(rows)), workers, progress, tables=tables)
    for number, run in enumerate(runs, 1):
        found.answers += replay(run, tables)
        if progress is not None:
            progress("Recorded runs", number, len(runs))
    if (folder / FILE).is_file():
        stages, faults = read_stages(folder / FILE, tables)
        found.answers += stages
        found.faults += faults
    if trained or broken:
        found.training = answer_training(trained)
        found.faults += broken
    if profiled and operators:
        _note(progress, 0)
        found.operators, found.profiles = operator_scores(folder, tables)
        _note(progress, 1)
    return found


def _note(progress: Meter | None, done: int) -> None:
    if progress is not None:
        progress("Operators", done, 1)
