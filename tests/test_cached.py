"""What tests keep in the cache is made once, whole or not at all."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.cached import Unavailable, once


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(2):
        assert once(tmp_path / "a", "a", lambda place, until: made.append(place), 60.0) == tmp_path / "a"
    assert made == [tmp_path / "a"]


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    def fails(place: Path, until: float) -> None:
        raise Unavailable("no network")

    for _ in range(2):
        with pytest.raises(Unavailable, match="no network"):
            once(tmp_path / "a", "a", fails, 60.0)
    made: list[Path] = []
    once(tmp_path / "a", "a", lambda place, until: made.append(place), 60.0)
    assert made


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=f"a cannot be installed at {tmp_path / 'file' / 'a'}"):
        once(tmp_path / "file" / "a", "a", lambda place, until: None, 60.0)


def test_the_second_run_waits_for_the_first(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.mkdir()
    with (place / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another run has been installing a for more than 0 s"):
            once(place, "a", lambda place, until: None, 0.0)
    assert not (place / "ready").exists()
