"""The recorder: the very lines of the core's traces, in parts, through crashes and full disks; columns of the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Dispatch, Refuse, Wake
from poise.core.errors import TraceError, UserError
from poise.core.event import Arrived, Finished, FirstToken, Measured, Refused, ReplicaUpdated, Tick
from poise.core.records.trace import SCHEMA, Trace, line
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.units import SECOND
from poise.live.parts import read_recording
from poise.live.record import Recorder, bare, encode
from tests.core.records.test_trace import KINDS, anything_of, items


def header() -> dict[str, Any]:
    return {"replicas": [], "seed": 3, "name": "ü"}


def a_recorder(path: Path, **options: Any) -> Recorder:
    return Recorder(path, header, 5, **options)


def a_request(number: int) -> list[Any]:
    request = RequestView(number, 10 * number, 100, ids=(1 << 63, number), ends=(64, 100))
    return [
        Arrived(10 * number, request),
        Dispatch(number, 1, 1),
        FirstToken(10 * number + 5, number, 1),
        Finished(10 * number + 9, number, 7),
    ]


@given(items)
def test_the_two_encoders_agree(given_: list[Any]) -> None:
    assert encode(given_) == b"".join(line(item).encode() + b"\n" for item in given_)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_the_two_encoders_agree_on_every_kind(kind: Any) -> None:
    @settings(max_examples=20)
    @given(anything_of(kind))
    def agree(item: Any) -> None:
        assert encode([item]) == line(item).encode() + b"\n"

    agree()


@pytest.mark.parametrize("reason", ["\ud800", "a\u2028b\x85c\x0bd", "\x7f\x00\x1f\n\t/\\\"'", "ü€😀", "\udfff\ud800 x"])
def test_any_reason_survives(reason: str, tmp_path: Path) -> None:
    events = [Refused(1, 2, 3, reason), Refuse(2, reason, 5), Tick(7)]
    assert encode(events) == b"".join(line(item).encode() + b"\n" for item in events)
    recorder = a_recorder(tmp_path / "day.jsonl")
    for item in events:
        recorder.add(item)
    recorder.close()
    text = reason.encode(errors="replace").decode()
    readable = [Refused(1, 2, 3, text), Refuse(2, text, 5), Tick(7)]
    assert list(read_recording(recorder.path).items()) == readable
    assert list(Trace.load(recorder.path).items()) == readable


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@settings(max_examples=25, deadline=None)
@given(given_=items, size=st.sampled_from([1, 300, 1 << 20]))
def test_what_is_added_is_read_back_over_all_parts(
    given_: list[Any], size: int, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("day") / f"day{ending}"
    recorder = a_recorder(path, part_bytes=size)
    for item in given_:
        recorder.add(item)
        recorder.flush(6)
    recorder.close()
    read = read_recording(path)
    assert list(read.items()) == given_ == list(read.items()), "it can be read twice"
    assert {place.suffix for place in read.parts} == {ending}
    assert len(read.parts) == (len(given_) + 1 if size == 1 else len(read.parts))
    assert recorder.lines == len(given_) and not recorder.dropped


def test_each_part_begins_with_the_whole_header_and_its_number(tmp_path: Path) -> None:
    facts = {"replicas": 1}
    recorder = Recorder(tmp_path / "day.jsonl", lambda: facts, 5, part_bytes=1)
    for number in range(3):
        recorder.add(Tick(number))
        facts["replicas"] += 1
        recorder.flush(number)
    recorder.close()
    parsed = [
        json.loads((tmp_path / name).read_text().splitlines()[0])
        for name in ("day.jsonl", "day.0001.jsonl", "day.0003.jsonl")
    ]
    same = {"schema": SCHEMA, "recording": 5, "began": {"at": 5}}
    assert parsed == [
        {**same, "part": 0, "before": 0, "replicas": 1},
        {**same, "part": 1, "before": 1, "replicas": 2},
        {**same, "part": 3, "before": 3, "replicas": 4},
    ]
    assert list(read_recording(tmp_path / "day.0001.jsonl").items()) == [Tick(1)]


def test_a_part_grows_old(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl", part_s=2.0)
    for at in (SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND):
        recorder.add(Tick(at))
        recorder.flush(at)
    recorder.close()
    assert [len(list(read_recording(place).items())) for place in (recorder.path, tmp_path / "day.0001.jsonl")] == [
        4,
        1,
    ]


def test_nothing_is_written_before_a_flush(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl")
    before = recorder.path.read_bytes()
    recorder.add(Tick(1))
    assert recorder.path.read_bytes() == before
    recorder.flush(2)
    assert recorder.path.read_bytes() == before + b'["Tick",1]\n'
    recorder.close()


def test_a_crash_costs_the_torn_line_only(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl", part_bytes=500)
    for number in range(8):
        for item in a_request(number):
            recorder.add(item)
        recorder.flush(number)
    recorder.close()
    whole = list(read_recording(recorder.path).items())
    *before, last = read_recording(recorder.path).parts
    assert before and last.read_bytes().count(b"\n") > 1
    bytes_ = last.read_bytes()
    for cut in range(1, len(bytes_.splitlines(keepends=True)[-1])):
        last.write_bytes(bytes_[:-cut])
        read = read_recording(recorder.path)
        assert list(read.items()) == whole[:-1]
        assert read.torn == bytes_.splitlines(keepends=True)[-1][:-cut].decode()


@pytest.mark.parametrize("left", [b"", b'{"schema"'])
def test_a_crash_at_the_beginning_of_a_part(left: bytes, tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl")
    recorder.add(Tick(1))
    recorder.close()
    (tmp_path / "day.0001.jsonl").write_bytes(left)
    assert list(read_recording(recorder.path).items()) == [Tick(1)]


def test_a_name_in_use_is_left_alone(tmp_path: Path) -> None:
    names = []
    for ending in (".jsonl", ".jsonl", ".parquet"):
        recorder = a_recorder(tmp_path / f"day{ending}")
        recorder.add(Tick(len(names)))
        recorder.close()
        names.append(recorder.path.name)
    assert names == ["day.jsonl", "day-1.jsonl", "day-2.parquet"]
    assert [list(read_recording(tmp_path / name).items()) for name in names] == [[Tick(0)], [Tick(1)], [Tick(2)]]


class FullDisk:
    """A file on a disk that fills up after some bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room
        self.name = file.name

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return int(self.file.write(data))

    def fileno(self) -> int:
        return int(self.file.fileno())

    def __enter__(self) -> Any:
        return self.file

    def __exit__(self, *error: object) -> None:
        self.file.close()


def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl")
    recorder._file = FullDisk(recorder._file, 15)  # type: ignore[assignment]
    for number in range(5):
        recorder.add(Tick(number))
        recorder.flush(number)
    recorder.close()
    assert recorder.failed == "No space left on device"
    assert (recorder.lines, recorder.dropped) == (1, 4)
    assert list(read_recording(recorder.path).items()) == [Tick(0)]


def test_columns_that_cannot_be_written_leave_the_lines(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.parquet")
    recorder.add(Tick(1))
    (tmp_path / "day.parquet").mkdir()
    recorder.close()
    assert recorder.unpacked == 1 and not recorder.failed
    assert sorted(place.name for place in tmp_path.iterdir()) == ["day.jsonl", "day.parquet"]
    assert list(read_recording(tmp_path / "day.jsonl").items()) == [Tick(1)]


def test_a_disk_that_is_full_when_a_part_begins(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl", part_bytes=1)
    (tmp_path / "day.0001.jsonl").write_text("somebody else's")
    for number in range(3):
        recorder.add(Tick(number))
        recorder.flush(number)
    recorder.close()
    assert recorder.failed == "File exists" and (recorder.lines, recorder.dropped) == (1, 2)


def test_a_date_in_the_name_is_no_number_of_a_part(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.20261121.jsonl", part_bytes=1)
    for number in range(3):
        recorder.add(Tick(number))
        recorder.flush(number)
    recorder.close()
    assert list(read_recording(recorder.path).items()) == [Tick(number) for number in range(3)]
    assert list(read_recording(tmp_path / "day.20261121.0002.jsonl").items()) == [Tick(2)]


def test_columns_say_kind_instant_and_request(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.parquet")
    spec = ReplicaSpec(prefill_rate=1e5)
    events = [
        *a_request(3),
        Wake(99),
        ReplicaUpdated(50, 1, spec),
        Measured(60, 55, 1, {"waiting": 2}),
        Refused(61, 3, 1, "x, [5"),
    ]
    for item in events:
        recorder.add(item)
    recorder.close()
    table = pl.read_parquet(recorder.path)
    assert table.columns == ["kind", "at", "request", "line"]
    assert table["kind"].to_list() == ["Header", *(type(item).__name__ for item in events)]
    assert table["at"].to_list() == [None, *(getattr(item, "at", None) for item in events)]
    assert table["request"].to_list() == [None, 3, 3, 3, 3, None, None, None, 3]
    assert not recorder.path.with_suffix(".jsonl").exists()


def test_lines_that_are_not_columns_yet_are_read_beside_those_that_are(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.parquet", part_bytes=1)
    for number in range(3):
        recorder.add(Tick(number))
        recorder.flush(number)
    recorder.add(Tick(3))
    recorder._write(recorder._pending)  # and the process is gone
    for thread in recorder._retiring:
        thread.join()
    assert recorder._file is not None
    recorder._file.close()
    read = read_recording(recorder.path)
    assert [place.suffix for place in read.parts] == [".parquet"] * 3 + [".jsonl"]
    assert list(read.items()) == [Tick(number) for number in range(4)]


def test_prompts_are_kept_only_where_requested(tmp_path: Path) -> None:
    for text in (False, True):
        recorder = a_recorder(tmp_path / f"{text}.jsonl", text=text)
        recorder.add_text(4, b'{"prompt": "a secret \xff"}')
        recorder.add(Tick(1))
        recorder.close()
    assert sorted(place.name for place in tmp_path.iterdir()) == ["False.jsonl", "True.jsonl", "True.text.jsonl"]
    assert "secret" not in (tmp_path / "True.jsonl").read_text()
    assert json.loads((tmp_path / "True.text.jsonl").read_text()) == [4, '{"prompt": "a secret �"}']
    assert list(read_recording(tmp_path / "True.jsonl").items()) == [Tick(1)]


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path / "day.jsonl", part_bytes=1)
    for number in range(3):
        recorder.add(Tick(number))
        recorder.flush(number)
    recorder.close()
    (tmp_path / "day.jsonl").unlink()
    assert list(read_recording(recorder.path).items()) == [Tick(1), Tick(2)], "the beginning may be gone"
    (tmp_path / "day.0002.jsonl").rename(tmp_path / "kept")
    with pytest.raises(TraceError, match=r"day\.0002\.jsonl: this part is missing"):
        read_recording(recorder.path)
    other = Recorder(tmp_path / "other.jsonl", header, 6)
    other.close()
    (tmp_path / "other.jsonl").rename(tmp_path / "day.0002.jsonl")
    with pytest.raises(TraceError, match=r"day\.0002\.jsonl: is a part of another recording"):
        read_recording(recorder.path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"day\.jsonl: cannot be written"):
        a_recorder(tmp_path / "file" / "day.jsonl")
    with pytest.raises(UserError, match=r"day\.txt: the ending \.txt names no recording; end the name in \.jsonl"):
        a_recorder(tmp_path / "day.txt")
    with pytest.raises(TraceError, match=r"none\.jsonl: no such file; give"):
        read_recording(tmp_path / "none.jsonl")
    (tmp_path / "other.jsonl").write_text("\n")
    with pytest.raises(TraceError, match=r"other\.jsonl: line 1 is no trace header"):
        read_recording(tmp_path / "other.jsonl")


def test_urls_are_named_without_credentials() -> None:
    assert bare("http://user:secret@10.0.0.1:8000/v1?key=secret#x") == "http://10.0.0.1:8000/v1"
    assert bare("http://10.0.0.1:8000") == "http://10.0.0.1:8000"
