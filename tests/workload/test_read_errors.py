"""Every mistake in a file is told in one line with its place, value and cure; with `skip_bad` bad rows are counted."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError, TraceError, UserError
from poise.workload import read, read_lengths
from poise.workload.readers.generic import OPTIONAL
from tests.workload.files import as_csv, as_jsonl, as_parquet, put
from tests.workload.trees import predecessors

HEAD = "arrival_s,prompt_tokens,output_tokens\n0,10,5\n"
LINE = '{"arrival_s": 0, "prompt_tokens": 10, "output_tokens": 5}\n'
JOINS = "request_id,arrival_s,prompt_tokens,output_tokens,after,delay_s\na,0,1,1,,\n"
MOON = '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}\n'

# name: (file name, content, what the message must contain)
BAD_ROWS: dict[str, tuple[str, str, str]] = {
    "negative length": ("t.csv", HEAD + "1,-5,3\n", "t.csv, line 3: prompt_tokens is '-5'"),
    "zero length": ("t.csv", HEAD + "1,0,3\n", "prompt_tokens is '0'; it must be a whole number of at least 1"),
    "output 0": ("t.csv", HEAD + "1,5,0\n", "output_tokens is '0'; it must be a whole number of at least 1"),
    "half a token": ("t.csv", HEAD + "1,5.5,3\n", "prompt_tokens is '5.5'"),
    "not a number": ("t.csv", HEAD + "1,NaN,3\n", "prompt_tokens is 'NaN'"),
    "infinite": ("t.csv", HEAD + "1,inf,3\n", "prompt_tokens is 'inf'"),
    "a word": ("t.csv", HEAD + "1,many,3\n", "prompt_tokens is 'many'"),
    "too long": ("t.csv", HEAD + "1,3000000000,3\n", "prompt_tokens is '3000000000'"),
    "a missing field": ("t.csv", HEAD + "1,,3\n", "line 3: prompt_tokens is missing"),
    "a short row": ("t.csv", HEAD + "1,7\n", "line 3: output_tokens is missing"),
    "an empty row": ("t.csv", HEAD + ",,\n", "line 3: prompt_tokens is missing"),
    "a long row": ("t.csv", HEAD + "1,7,3,9\n", "line 3: has 4 fields; the header names 3"),
    "an open quote": ("t.csv", HEAD + '1,"7,3\n', "line 3: has 2 fields"),
    "negative stamp": ("t.csv", HEAD + "-1,7,3\n", "line 3: arrival_s is '-1'; it must be a date or a number"),
    "no stamp": ("t.csv", HEAD + ",7,3\n", "line 3: arrival_s is missing"),
    "odd stamp": ("t.csv", HEAD + "noon,7,3\n", "arrival_s is 'noon'"),
    "a stamp far away": ("t.csv", HEAD + "9e9,7,3\n", "within 53 days of the first"),
    "milliseconds as seconds": ("t.csv", HEAD + "1700000000000,7,3\n", "call a column of milliseconds timestamp_ms"),
    "microseconds as milliseconds": (
        "t.jsonl",
        '{"timestamp_ms":0,"input_length":9,"output_length":5}\n'
        '{"timestamp_ms":1700000000000000,"input_length":9,"output_length":5}\n',
        "give milliseconds since 1970",
    ),
    "lines after a blank one": ("t.csv", HEAD + "\n1,2,3\n1,-7,3\n", "line 5: prompt_tokens is '-7'"),
    "lines after quoted line ends": (
        "t.csv",
        'note,arrival_s,prompt_tokens,output_tokens\n"two\nlines",0,1,1\nx,1,-7,3\n',
        "line 4: prompt_tokens is '-7'",
    ),
    "broken JSON": ("t.jsonl", LINE + '{"arrival_s": 1,\n', "t.jsonl, line 2: broken JSON"),
    "no object": ("t.jsonl", LINE + "\n[1, 2]\n", "line 3: is a list; each line must be an object"),
    "no object in a list": ("t.json", f"[{LINE}, 7]", "row 1: is a number; each must be an object"),
    "null": ("t.jsonl", LINE + LINE.replace("10", "null"), "line 2: prompt_tokens is missing"),
    "true": ("t.jsonl", LINE + LINE.replace("10", "true"), "line 2: prompt_tokens is True"),
    "a list": ("t.jsonl", LINE + LINE.replace("10", "[3]"), "line 2: prompt_tokens is [3]"),
    "negative delay": ("t.csv", JOINS + "b,,1,1,a,-1\n", "line 3: delay_s is '-1'; it must be a number of at least 0"),
    "nobody to wait for": ("t.csv", JOINS + "b,,1,1,c,1\n", "line 3: after is 'c'; no row has this request_id"),
    "two of one name": ("t.csv", JOINS + "a,1,1,1,,\nb,,1,1,a,\n", "request_id is 'a'; each request needs an id"),
    "delays without end": (
        "t.csv",
        JOINS + "b,,1,1,a,4000000\nc,,1,1,b,4000000\nd,,1,1,c,4000000\n",
        "line 4: after is 'b'; its delay",
    ),
    "a ring": ("t.csv", JOINS + "b,,1,1,c,1\nc,,1,1,b,1\n", "line 3: after is 'c'; these requests wait for each other"),
    "itself": ("t.csv", JOINS + "b,,1,1,b,1\n", "after is 'b'; these requests wait for each other"),
    "a bad predecessor": ("t.csv", JOINS + "b,1,-1,1,,\nc,,1,1,b,1\n", "line 3: prompt_tokens is '-1'"),
    "a row beyond": (
        "t.csv",
        "arrival_s,prompt_tokens,output_tokens,after\n0,1,1,\n0,1,1,7\n",
        "after is '7'; no such row",
    ),
    "too many ids": (
        "t.jsonl",
        MOON + MOON.replace("600", "512").replace("[1,2]", "[1,3]"),
        "line 2: hash_ids is [1, 3]; more ids",
    ),
    "ids in another order": (
        "t.jsonl",
        MOON + MOON.replace("[1,2]", "[2,1]"),
        "line 2: hash_ids is [2, 1]; an id follows",
    ),
    "an id twice": ("t.jsonl", MOON + MOON.replace("[1,2]", "[3,3]"), "line 2: hash_ids is [3, 3]; an id follows"),
    "half an id": (
        "t.jsonl",
        MOON + MOON.replace("[1,2]", "[0.5]"),
        "line 2: hash_ids is [0.5]; hash_ids must be a list",
    ),
    "no ids": ("t.jsonl", MOON + MOON.replace("[1,2]", "true"), "line 2: hash_ids is True; hash_ids must be a list"),
    "priority": ("t.csv", "priority," + HEAD.replace("\n0", "\n0,0") + "99999,1,1,1\n", "priority is '99999'"),
    "max_tokens": (
        "t.csv",
        "max_tokens," + HEAD.replace("\n0", "\n0,0") + "2,1,1,3\n",
        "max_tokens is '2'; it is below",
    ),
    "deadline": ("t.csv", "deadline_s," + HEAD.replace("\n0", "\n0,0") + "soon,1,1,1\n", "deadline_s is 'soon'"),
    "model": (
        "t.csv",
        "model," + HEAD.replace("\n0", "\nm,0") + ",1,1,1\n",
        "model is missing; each request must name",
    ),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_named(tmp_path: Path, case: str) -> None:
    name, content, expected = BAD_ROWS[case]
    path = put(tmp_path, name, content)
    with pytest.raises(TraceError) as caught:
        read(path)
    message = str(caught.value)
    assert expected in message and message.startswith(str(path)) and "\n" not in message
    assert message.endswith("correct or drop the row, or pass skip_bad=True")


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_can_be_passed_over(tmp_path: Path, case: str) -> None:
    name, content, expected = BAD_ROWS[case]
    made = read(put(tmp_path, name, content), skip_bad=True)
    assert made.source["skipped"] >= 1 and expected in made.source["first_skipped"]
    assert len(made) >= 1


WHOLE_FILES: dict[str, tuple[str, bytes | str, str]] = {
    "empty": ("t.csv", "", "the file is empty"),
    "blank": ("t.csv", " \n\n", "the file is empty"),
    "only a header": ("t.csv", "arrival_s,prompt_tokens,output_tokens\n", "no rows"),
    "empty list": ("t.json", "[]", "no rows"),
    "unknown ending": ("t.xlsx", HEAD, "unknown ending '.xlsx'; rename or convert it to one of .csv"),
    "no ending": ("trace", HEAD, "unknown ending ''"),
    "unknown columns": (
        "t.csv",
        "when,what\n1,2\n",
        "no column for arrival_s (seconds from the start), prompt_tokens (tokens)",
    ),
    "one column lacking": (
        "t.csv",
        "arrival_s,prompt_tokens\n1,2\n",
        "no column for output_tokens (tokens) among",
    ),
    "not text": ("t.csv", HEAD.encode() + b"1,\xff\xfe,3\n", "line 3: not UTF-8 text"),
    "cut gzip": ("t.csv.gz", gzip.compress(HEAD.encode() * 50)[:-20], "the gzip stream is broken"),
    "broken gzip": ("t.csv.gz", b"\x1f\x8b" + b"nonsense" * 5, "the gzip stream is broken"),
    "cut Parquet": ("t.parquet", as_parquet([{"arrival_s": 1.0}])[:-9], "broken Parquet"),
    "cut list": ("t.json", "[" + LINE, "broken JSON"),
    "nothing but bad rows": ("t.jsonl", "{,}\n", "line 1: broken JSON"),
    "no stamp and no join": (
        "t.csv",
        "prompt_tokens,output_tokens,after\n1,2,\n",
        "no row has an arrival or a predecessor",
    ),
}


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("case", WHOLE_FILES)
def test_a_hopeless_file_is_refused(tmp_path: Path, case: str, skip_bad: bool) -> None:
    name, content, expected = WHOLE_FILES[case]
    path = put(tmp_path, name, content)
    with pytest.raises(TraceError) as caught:
        read(path, skip_bad=skip_bad)
    message = str(caught.value)
    assert expected in message and message.startswith(str(path)) and "\n" not in message


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(TraceError, match="is a directory"):
        read(tmp_path)


def test_wrong_arguments(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", HEAD)
    with pytest.raises(TraceError, match="format is 'vidur'; it must be auto, azure, burstgpt, mooncake, agent"):
        read(path, format="vidur")
    with pytest.raises(ScenarioError, match="limit is 0"):
        read(path, limit=0)
    with pytest.raises(ScenarioError, match="block_tokens is 0"):
        read(path, block_tokens=0)
    with pytest.raises(
        TraceError,
        match=r"no column for arrival_s .timestamp., prompt_tokens .input_length., .* in format mooncake among",
    ):
        read(path, format="mooncake")


def test_parquet_rows_are_named_by_number(tmp_path: Path) -> None:
    rows = [{"arrival_s": 0.0, "prompt_tokens": 5, "output_tokens": at} for at in (1, 2, -3)]
    with pytest.raises(TraceError, match="row 2: output_tokens is -3"):
        read(put(tmp_path, "t.parquet", as_parquet(rows)))


def test_all_bad_rows_are_counted(tmp_path: Path) -> None:
    bad = ["1,0,1", "2,1,0", "x,1,1", "3,1,1,1", "4"]
    path = put(tmp_path, "t.csv", HEAD + "\n".join(bad) + "\n5,6,7\n")
    made = read(path, skip_bad=True)
    assert made.source["skipped"] == len(bad) and made.prompt.tolist() == [10, 6]
    with pytest.raises(TraceError, match=r"no usable row .the first: .*line 2: prompt_tokens is '0'"):
        read(put(tmp_path, "u.csv", "arrival_s,prompt_tokens,output_tokens\n0,0,1\n"), skip_bad=True)


def test_who_waits_for_a_skipped_row_is_skipped_too(tmp_path: Path) -> None:
    rows = [
        {"request_id": name, "arrival_s": 0, "prompt_tokens": tokens, "output_tokens": 1, "after": after}
        for name, tokens, after in [("a", 1, None), ("b", -1, None), ("c", 3, "b"), ("d", 4, "c"), ("e", 5, "a")]
    ]
    for name, content in (("t.csv", as_csv(rows)), ("t.jsonl", as_jsonl(rows))):
        made = read(put(tmp_path, name, content), skip_bad=True)
        assert made.prompt.tolist() == [1, 5] and made.source["skipped"] == 3
        assert [predecessors(made, row) for row in range(2)] == [[], [0]]


def test_bad_lengths_alone(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "prompt_tokens,output_tokens\n5,6\n7,x\n")
    with pytest.raises(TraceError, match="line 3: output_tokens is 'x'"):
        read_lengths(path)
    assert read_lengths(path, skip_bad=True).prompt.tolist() == [5]
    with pytest.raises(TraceError, match="no column for output_tokens"):
        read_lengths(put(tmp_path, "u.csv", "prompt_tokens\n5\n"))


def test_row_numbers_count_broken_rows_too(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens,after\n0,1,1,\n0,2,1,,,\n0,3,1,\n,4,1,2\n,5,1,1\n"
    made = read(put(tmp_path, "t.csv", text), skip_bad=True)
    assert made.prompt.tolist() == [1, 3, 4] and made.source["skipped"] == 2
    assert predecessors(made, 2) == [1]


CELLS = st.one_of(
    st.text(max_size=6), st.integers(-3, 9), st.floats(), st.none(), st.booleans(), st.lists(st.integers(), max_size=3)
)
NAMES = ["arrival_s", "prompt_tokens", "output_tokens", *OPTIONAL, "other"]


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), CELLS, max_size=9), max_size=6), st.booleans())
def test_any_objects_are_read_or_refused(rows: list[dict[str, object]], skip_bad: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("t.jsonl", as_jsonl(rows)), ("t.csv", as_csv(rows)), ("t.json", json.dumps(rows))):
            with contextlib.suppress(UserError):
                read(put(Path(folder), name, content), skip_bad=skip_bad).check()


@given(st.binary(max_size=80), st.sampled_from(["", HEAD, LINE, JOINS, "PAR1", "\x1f\x8b"]), st.booleans())
def test_any_bytes_are_read_or_refused(content: bytes, before: str, skip_bad: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(UserError):
        read(put(Path(folder), "t.csv", before.encode("latin-1") + content), skip_bad=skip_bad).check()


def test_a_whole_column_of_milliseconds_is_no_day_of_very_few_requests(tmp_path: Path) -> None:
    rows = "".join(f"{1_700_000_000_000 + 100 * at},10,5\n" for at in range(50))
    with pytest.raises(TraceError, match=r"line 2: arrival_s is '1700000000000'; in seconds .* timestamp_ms"):
        read(put(tmp_path, "t.csv", "arrival_s,prompt_tokens,output_tokens\n" + rows))
    found = read(put(tmp_path, "ms.csv", "timestamp_ms,prompt_tokens,output_tokens\n" + rows))
    assert found.rate == pytest.approx(10.0)
