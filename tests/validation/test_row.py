"""Tables of measurements: what is read, and one clear line for everything that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import TraceError
from poise.validation.row import NEEDED, read_rows
from tests.validation.made import COLUMNS, table


def test_a_row_is_read_as_it_stands(tmp_path: Path) -> None:
    (row,), faults = read_rows(table(tmp_path, {"n_gpus": "8", "tp": "4", "value": "7.25", "quality": "B"}))
    assert faults == []
    assert (row.devices, row.tensor, row.expert, row.value, row.quality) == (8, 4, 0, 7.25, "B")
    assert row.place == "serving_e2e.csv: line 2"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"value": "fast"}, "value is 'fast'"),
        ({"value": ""}, "a number above 0"),
        ({"value": "-3"}, "value is '-3'"),
        ({"value": "inf"}, "value is 'inf'"),
        ({"isl": "many"}, "isl is 'many'"),
        ({"tp": "1.5"}, "tp is '1.5'"),
    ],
)
def test_a_bad_row_is_one_line_and_the_others_are_read(tmp_path: Path, change: dict[str, str], expected: str) -> None:
    rows, faults = read_rows(table(tmp_path, {}, change, {}))
    assert len(rows) == 2
    assert len(faults) == 1
    assert faults[0].startswith("serving_e2e.csv: line 3: ")
    assert expected in faults[0]
    assert "\n" not in faults[0]


@pytest.mark.parametrize("name", NEEDED)
def test_a_needed_column_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, {}, columns=tuple(column for column in COLUMNS if column != name))
    with pytest.raises(TraceError, match=f"column {name} is missing"):
        read_rows(path)


def test_other_columns_may_be_missing(tmp_path: Path) -> None:
    (row,), _ = read_rows(table(tmp_path, {}, columns=NEEDED))
    assert (row.tensor, row.precision, row.disagg, row.quality) == (0, "", False, "A")


@pytest.mark.parametrize("nothing", ["", "nan", "None", "N/A", "null", "-"])
def test_what_programs_write_for_nothing_is_nothing(tmp_path: Path, nothing: str) -> None:
    (row,), faults = read_rows(table(tmp_path, {"n_gpus": nothing, "isl": nothing}))
    assert (row.devices, row.prompt, faults) == (0, 0.0, [])


def test_a_table_of_a_spreadsheet_begins_with_a_mark(tmp_path: Path) -> None:
    path = table(tmp_path, {}, columns=NEEDED)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (row,), _ = read_rows(path)
    assert row.source == "made up"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b""])
def test_a_file_that_is_no_table_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"broken\.csv: ") as caught:
        read_rows(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")
