"""One process, several, a lost one, parts, Ray: the same cells, each exactly once."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import PoiseError, UserError
from poise.experiment.compare import Comparison, compare
from poise.experiment.run import Shard, shard_of
from poise.experiment.store import Store
from poise.experiment.workers import Workers, worker_pool, workers_of

from .worlds import doomed, experiment, fragile, world

RAY = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own, at its start
]
ALONE = compare(experiment())


def same(found: Comparison, other: Comparison = ALONE) -> None:
    """The same cells with the same figures, but for how long they took."""
    assert {place: cell.figures for place, cell in found.cells.items()} == {
        place: cell.figures for place, cell in other.cells.items()
    }
    assert found.complete and not found.interrupted


def test_the_grid_is_cases_by_settings_by_seeds() -> None:
    assert len(ALONE.cells) == 3 * 2 * 4 and ALONE.complete
    for place, cell in ALONE.cells.items():
        assert cell.figures == world(ALONE.study.case(place[1], place[0]), place[2])


@pytest.mark.parametrize("workers", [Workers(2), pytest.param(Workers(ray="local"), marks=RAY)])
def test_who_does_the_work_changes_nothing(workers: Workers) -> None:
    seen: list[int] = []
    same(compare(experiment(), workers=workers, progress=lambda label, done, total: seen.append(done)))
    assert seen == list(range(25))  # every cell comes back once


@pytest.mark.parametrize("workers", [Workers(2), pytest.param(Workers(ray="local"), marks=RAY)])
def test_a_killed_worker_changes_nothing(workers: Workers, tmp_path: Path) -> None:
    mark, seen = tmp_path / "mark", []
    wanted = experiment(fragile, mark=str(mark), kills=3)
    same(compare(wanted, workers=workers, progress=lambda label, done, total: seen.append(done)))
    assert mark.exists() and seen == list(range(25))


def test_what_kills_every_worker_is_given_up() -> None:
    with pytest.raises(PoiseError, match="a process ended before its simulation did; give fewer jobs"):
        compare(experiment(doomed), workers=Workers(2))


def locks(task: int, stopped: Callable[[], bool]) -> list[str]:
    """The locks that a worker takes to read whether to stop."""
    called: list[str] = []
    sys.setprofile(lambda frame, event, what: called.append(repr(what)) if event == "c_call" else None)
    stopped()
    sys.setprofile(None)
    return [each for each in called if "Lock" in each]


def test_a_worker_takes_no_lock_with_which_it_could_be_killed() -> None:
    found: list[list[str]] = []
    with worker_pool(Workers(2), threading.Event(), locks) as pool:
        pool.work(range(3), found.append)
    assert found == [[]] * 3


def test_what_cannot_travel_is_reported() -> None:
    with pytest.raises(UserError, match="define it at the top of a module, or give one job"):
        compare(experiment(lambda case, seed: {}), workers=Workers(2))


@pytest.mark.parametrize("parts", [1, 2, 5, 30])
def test_parts_are_all_cells_once(parts: int, tmp_path: Path) -> None:
    study = experiment()
    seen: Counter[Any] = Counter()
    for number in range(1, parts + 1):
        found = compare(study, shard=Shard(number, parts), store=store(tmp_path))
        seen.update(list(found.cells))
    assert seen == Counter(study.places())
    same(compare(study, store=store(tmp_path)))


def store(folder: Path) -> Store:
    """Where cells are kept."""
    return Store(folder, dict.fromkeys(experiment().names, "print"), axis="setting")


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    study = experiment()
    compare(study, store=store(tmp_path), shard=Shard(1, 2))
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("cell.json")}
    assert len(before) == 12
    same(compare(study, store=store(tmp_path)))
    after = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("cell.json")}
    assert len(after) == 24 and before.items() <= after.items()


def test_the_user_stops_it_and_goes_on(tmp_path: Path) -> None:
    stop = threading.Event()
    ended: list[int] = []

    def note(came: int) -> None:
        ended.append(came)
        if len(ended) == 3:
            stop.set()

    with worker_pool(Workers(), stop, _twice) as hands:
        hands.work(range(10), note)
    assert ended == [0, 2, 4]


def _twice(number: int, stopped: Any) -> int | None:
    return None if stopped() else 2 * number


@pytest.mark.parametrize(
    ("given", "found"),
    [(("3", None), Workers(3)), ((None, "auto"), Workers(1, "auto")), ((None, None), Workers(1))],
)
def test_the_options(given: tuple[str | None, str | None], found: Workers) -> None:
    assert workers_of(*given, usual=1) == found


@pytest.mark.parametrize(("jobs", "ray"), [("0", None), ("-1", None), ("two", None), ("2", "local")])
def test_mistaken_options(jobs: str, ray: str | None) -> None:
    with pytest.raises(UserError, match="leave one of the two" if ray else "must be a whole number of at least 1"):
        workers_of(jobs, ray)


def test_shards_are_counted_from_one() -> None:
    assert shard_of("2/8") == Shard(2, 8) and shard_of(None) is None
    for text in ("0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        with pytest.raises(UserError, match="must be I/N with I from 1 to N"):
            shard_of(text)
