"""Files appear whole or not at all."""

import fcntl
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.report.files import replacing


def test_parents_are_made_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a" / "b" / "out.txt"
    with replacing(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_a_folder_cannot_be_replaced(tmp_path):
    with pytest.raises(UserError, match="regular file"), replacing(tmp_path):
        pass


def test_a_device_cannot_be_replaced():
    with pytest.raises(UserError, match="regular file"), replacing("/dev/null"):
        pass
    assert Path("/dev/null").is_char_device()


def test_a_place_that_cannot_be_written_is_named_with_its_cure(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = tmp_path / "file" / "out"
    with pytest.raises(UserError, match=r"file/out: cannot be written .*; give a file") as caught, replacing(blocked):
        pass
    assert "\n" not in str(caught.value)


def test_what_a_killed_process_left_is_taken_away(tmp_path):
    """And what another one is writing is left alone: it holds a lock."""
    left, held, other = (tmp_path / name for name in (".a.csv.1.part", ".a.csv.2.part", ".b.csv.3.part"))
    for each in (left, held, other):
        each.write_text("half")
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with replacing(tmp_path / "a.csv") as file:
            file.write(b"whole")
    assert {each.name for each in tmp_path.iterdir()} == {"a.csv", held.name, other.name}
