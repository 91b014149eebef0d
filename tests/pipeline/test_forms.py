"""What is written is read back: text, and PyTorch's files in both forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from poise.core.errors import ScheduleError, UserError
from poise.pipeline import Schedule, make, names, time
from poise.pipeline.communicate import communicate
from poise.pipeline.csv import parse_csv, read_csv, write_csv
from poise.pipeline.perfetto import timeline
from poise.pipeline.text import read_text, write_text

from .cases import homes, schedules


@settings(max_examples=100, deadline=None)
@given(schedules)
def test_text_reads_back(schedule: Schedule) -> None:
    assert read_text(write_text(schedule)) == schedule
    assert read_text(str(communicate(schedule))) == communicate(schedule)


@settings(max_examples=100, deadline=None)
@given(homes)
def test_files_read_back(schedule: Schedule) -> None:
    assert parse_csv(write_csv(schedule)) == schedule
    full = parse_csv(write_csv(schedule, communications=True))
    assert full == communicate(schedule)
    assert parse_csv(write_csv(full, communications=True)) == full
    assert parse_csv(write_csv(full)) == schedule


def test_the_form_is_pytorchs() -> None:
    schedule = make("one_f_one_b", 2, 2)
    assert write_csv(schedule) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    assert write_csv(schedule, communications=True) == (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n"
    )


def test_empty_cells_wait_and_overlapping_cells_are_two() -> None:
    schedule = parse_csv("0F0,,0F1,,,0B0,0B1\n,1F0,(1F1;1B0)OVERLAP_F_B,1B1\n")
    assert str(schedule) == "0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0F0,0X0\n", "rank 0, slot 1: '0X0' is no operation; write stage"),
        ("0F0,0F12345678901\n", "'0F12345678901' is no operation"),
        ("0F0,0B\n", "'0B': B needs a microbatch; write 0B0"),
        ("0F0,0REDUCE_GRAD1\n", "REDUCE_GRAD takes no microbatch"),
        ("", "without operations"),
    ],
)
def test_what_is_no_schedule_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text(content)
    with pytest.raises(ScheduleError, match=message) as error:
        read_csv(file)
    assert str(file) in str(error.value)
    with pytest.raises(UserError, match=r"none\.csv: cannot be read"):
        read_csv(tmp_path / "none.csv")


def test_copies_of_stages_cannot_be_written_for_pytorch() -> None:
    with pytest.raises(ScheduleError, match="stage 0 has copies on ranks 0 and 3"):
        write_csv(make("dualpipe", 4, 8))


def test_timeline_has_every_operation() -> None:
    timing = time(make("zb_v", 4, 8))
    events = json.loads(timeline(timing))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == 4 * 8 * 2 * 3
    assert max(event["ts"] + event["dur"] for event in slices) == 25.5 * 1000
    held = [event["args"]["full-stage activations"] for event in events if event["ph"] == "C"]
    assert max(held) == 4 and min(held) == 0


def test_schedules_are_found_by_name() -> None:
    assert {"gpipe", "one_f_one_b", "zb_v"} <= set(names())
    with pytest.raises(ScheduleError, match="did you mean zb_v"):
        make("zbv", 4, 8)
    with pytest.raises(ScheduleError, match="unknown parameter 'grupp'; did you mean group"):
        make("interleaved", 4, 8, grupp=3)
    with pytest.raises(ScheduleError, match="chunks 3, but it has 2"):
        make("zb_v", 4, 8, chunks=3)
    with pytest.raises(ScheduleError, match="stages 0"):
        make("gpipe", 0, 8)
    assert make("zb_v", 4, 8, chunks=2) == make("zb_v", 4, 8)
