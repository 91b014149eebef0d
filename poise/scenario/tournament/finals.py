"""The finals of a tournament of policies: their simulations, with seeds or blocks of time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poise.experiment.fill import fill
from poise.experiment.progress import Meter
from poise.experiment.tournament.contest import Trial
from poise.experiment.tournament.factor import Combination, Factor, label
from poise.experiment.tournament.finals import Finals
from poise.experiment.workers import WorkerPool
from poise.report.files import file_name
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.store import Store
from poise.scenario.compare.study import Place
from poise.scenario.tournament.block import Block
from poise.scenario.tournament.work import Keyed, Played, tasks


def played_out(
    blocks: Sequence[Block], loads: Sequence[Sequence[float]], finalists: Sequence[Combination], seeds: int,
    pool: WorkerPool[Keyed, Played], folder: Path | None, progress: Meter,
) -> Finals | None:  # fmt: skip
    """Run the finals; None where the user stopped them. loads: those of each block."""
    factors = blocks[0].question.factors
    trials: list[Trial] = []
    stores: list[Store | None] = []
    comparisons: list[Comparison] = []
    for at, block in enumerate(blocks):
        study = block.study(finalists, loads[at], [0] if block.recorded else range(seeds))
        prints = {label(factors, each): block.print(each, 0.0, 0) for each in finalists}
        stores.append(None if folder is None else Store(folder / "finals" / file_name(block.name), prints, renews=True))
        trials += [Trial(at, load, seed, each) for load in study.loads for seed in study.seeds for each in finalists]
        comparisons.append(Comparison(study))

    def note(came: Played) -> Trial:
        at = came.trial.block
        comparisons[at].cells[came.cell.place] = came.cell
        if (store := stores[at]) is not None:
            store.save(came.cell)
        return came.trial

    def has(trial: Trial) -> bool:
        return _found(comparisons[trial.block], stores[trial.block], factors, trial)

    whole = fill("long runs", trials, has, lambda left: tasks(blocks, left, cut=True), pool, note, progress)
    return Finals(factors, [block.name for block in blocks], finalists, list(comparisons)) if whole else None


def _found(comparison: Comparison, store: Store | None, factors: Sequence[Factor], trial: Trial) -> bool:
    """Whether the cell of a trial was saved; it is put in its place."""
    place = Place(trial.at, label(factors, trial.levels), trial.seed)
    found = None if store is None else store.find(place)
    if found is not None:
        comparison.cells[place] = found
    return found is not None
