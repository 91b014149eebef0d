"""What was written is read back, in every form; formats, units, orders and joins are understood."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import TraceError
from poise.core.units import SECOND
from poise.workload import Workload, read, read_lengths
from poise.workload.readers import file
from tests.workload.files import FORMS, Row, as_jsonl, put, write
from tests.workload.trees import extents, predecessors

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": st.integers(100, 200),
    "priority": st.integers(-5, 5),
    "deadline_s": st.integers(0, 9),
    "timeout_s": st.integers(0, 9),
    "session": st.sampled_from(["a", "b", "c c"]),
    "tenant": st.sampled_from(["x", "y", None]),
    "model": st.sampled_from(["llama", "qwen"]),
    "lora": st.sampled_from(["p", None]),
}


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    """Sorted rows with any of the optional columns."""
    names = draw(st.sets(st.sampled_from(sorted(OPTIONS))))
    stamps = sorted(draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=8)))
    rows: list[Row] = []
    for stamp in stamps:
        lengths = {"prompt_tokens": draw(st.integers(1, 5000)), "output_tokens": draw(st.integers(1, 100))}
        rows.append({"arrival_s": stamp / 1000, **lengths, **{name: draw(OPTIONS[name]) for name in sorted(names)}})
    # A column of nothing but gaps has no type in Parquet; it would mean the same as no column.
    for name in ("tenant", "lora"):
        if name in names and all(row[name] is None for row in rows):
            rows = [{key: value for key, value in row.items() if key != name} for row in rows]
    return rows


def coded(rows: list[Row], name: str) -> list[int]:
    order = list(dict.fromkeys(row[name] for row in rows if row[name] is not None))
    return [-1 if row[name] is None else order.index(row[name]) for row in rows]


def expect(made: Workload, rows: list[Row]) -> None:
    first = rows[0]["arrival_s"]
    assert made.arrival.tolist() == [round((row["arrival_s"] - first) * 1000) * SECOND // 1000 for row in rows]
    assert made.prompt.tolist() == [row["prompt_tokens"] for row in rows]
    assert made.output.tolist() == [row["output_tokens"] for row in rows]
    for name in OPTIONS:
        column = getattr(made, name.removesuffix("_s"))
        if name not in rows[0]:
            assert column is None
        elif name in ("session", "tenant", "lora", "model"):
            assert column.tolist() == coded(rows, name)
        else:
            scale = SECOND if name.endswith("_s") else 1
            assert column.tolist() == [row[name] * scale for row in rows]


@settings(max_examples=25)
@given(traces())
def test_every_form_says_the_same(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMS:
            made = read(write(Path(folder), name, rows))
            expect(made, rows)
            assert made.source["skipped"] == 0 and made.source["moved"] == 0


PLAIN: Row = {"arrival_s": 1.5, "prompt_tokens": 30, "output_tokens": 4}


@pytest.mark.parametrize(
    "names",
    [
        ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        ("arrival_timestamp", "prompt_size", "token_size"),
        ("Timestamp", "Request tokens", "Response tokens"),
        (" Arrival-S ", "Prompt Tokens", "OUTPUT_TOKENS"),
        ("arrival_time", "prompt_len", "output_len"),
        ("timestamp", "input_tokens", "completion_tokens"),
    ],
)
def test_other_names_for_the_same(tmp_path: Path, names: tuple[str, str, str]) -> None:
    rows = [dict(zip(names, (at, 30, 4), strict=True)) for at in (0.0, 1.5)]
    for form in ("trace.csv", "trace.jsonl"):
        made = read(write(tmp_path, form, rows))
        assert (made.arrival[1], made.prompt[1], made.output[1]) == (1.5 * SECOND, 30, 4)


def test_milliseconds_by_name(tmp_path: Path) -> None:
    made = read(put(tmp_path, "t.csv", "timestamp_ms,prompt_tokens,output_tokens\n0,30,4\n1500,30,4\n"))
    assert made.arrival[1] == 3 * SECOND // 2


def test_the_first_name_wins(tmp_path: Path) -> None:
    made = read(put(tmp_path, "t.csv", "timestamp,arrival_s,prompt_tokens,output_tokens\n99,0,30,4\n100,2,30,4\n"))
    assert made.arrival[1] == 2 * SECOND


def test_a_byte_order_mark_blanks_and_empty_lines_do_no_harm(tmp_path: Path) -> None:
    text = "\ufeff\r\narrival_s, prompt_tokens,output_tokens\r\n 0 , 30 ,4\r\n\r\n1,31.0,5\r\n\r\n"
    made = read(put(tmp_path, "t.csv", text))
    assert made.prompt.tolist() == [30, 31] and made.source["skipped"] == 0


def zstd(content: bytes) -> bytes:
    """A zstd stream (RFC 8878) of blocks that are not compressed."""
    blocks = [content[at : at + 50] for at in range(0, len(content), 50)]
    last = len(blocks) - 1
    body = b"".join((len(each) << 3 | (at == last)).to_bytes(3, "little") + each for at, each in enumerate(blocks))
    return b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little") + body


@pytest.mark.parametrize("name", ["trace.csv", "trace.tsv", "trace.jsonl", "trace.json"])
def test_zstd_says_the_same(tmp_path: Path, name: str) -> None:
    rows = [{**PLAIN, "arrival_s": float(at), "session": each} for at, each in enumerate(["a b", "c", "a b"])]
    plain, packed = FORMS[name](rows), tmp_path / f"{name}.zst"
    packed.write_bytes(zstd(plain))
    made = read(packed)
    expect(made, rows)
    packed.write_bytes(zstd(b"\r\n" + plain.replace(b"\n", b"\r\n") + b"\r\n"))
    expect(read(packed), rows)
    packed.write_bytes(zstd(plain)[:-7])
    with pytest.raises(TraceError, match="the zstd stream is broken"):
        read(packed)


def test_lines_of_a_zstd_file_are_counted(tmp_path: Path) -> None:
    packed = tmp_path / "t.csv.zst"
    packed.write_bytes(zstd(b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n\n1,x,1\n"))
    with pytest.raises(TraceError, match="line 4: prompt_tokens is 'x'"):
        read(packed)


def test_content_counts_more_than_the_ending(tmp_path: Path) -> None:
    rows = [PLAIN, {**PLAIN, "arrival_s": 2.0}]
    assert len(read(put(tmp_path, "t.csv", FORMS["trace.parquet"](rows)))) == 2
    assert len(read(put(tmp_path, "t.txt", FORMS["trace.jsonl.gz"](rows)))) == 2
    assert len(read(put(tmp_path, "t.parquet", FORMS["trace.csv"](rows)))) == 2


def test_azure_as_published(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n"
    )
    made = read(put(tmp_path, "azure.csv", text))
    assert made.source["format"] == "azure"
    assert made.arrival.tolist() == [0, 4_314_579_000_000, 4_541_877_000_000]
    assert (made.prompt.tolist(), made.output.tolist()) == ([374, 396, 879], [44, 109, 55])
    trimmed = put(tmp_path, "trimmed.csv", "arrival_s,prompt_tokens,output_tokens\n0.0,374,44\n4.314579,396,109\n")
    assert read(trimmed, format="azure").arrival.tolist() == made.arrival.tolist()[:2]


@pytest.mark.parametrize(
    "form", ["2024-05-10 00:00:0{}.25+00:00", "2024-05-10T00:00:0{}.25Z", "2024-05-10T00:00:0{}.25"]
)
def test_dates_count_from_the_first(tmp_path: Path, form: str) -> None:
    rows = [{**PLAIN, "arrival_s": form.format(at)} for at in (3, 1, 5)]
    for name in ("trace.csv", "trace.jsonl"):
        made = read(write(tmp_path, name, rows))
        assert made.arrival.tolist() == [0, 2 * SECOND, 4 * SECOND]
        assert made.source["shifted_s"] == "dates count from the first" and made.source["moved"] == 2


def test_seconds_since_1970_count_from_the_first(tmp_path: Path) -> None:
    rows = [{**PLAIN, "arrival_s": 1_700_000_000 + at} for at in (0, 2)]
    made = read(write(tmp_path, "trace.csv", rows))
    assert made.arrival.tolist() == [0, 2 * SECOND] and made.source["shifted_s"] == -1_700_000_000


@pytest.mark.parametrize("late", [3600, 2400.25, 86_399.999_999, 1_700_000_000])
def test_a_trace_that_begins_late_is_the_trace_that_begins_at_once(tmp_path: Path, late: float) -> None:
    """To the picosecond, whatever digits the float of a late stamp has lost."""
    stamps = [0, 1_000, 70_707, 123_457, 2_600_001]  # microseconds
    start = round(late * 1_000_000)
    rows = [{**PLAIN, "arrival_s": f"{at // 10**6}.{at % 10**6:06}"} for at in [start + stamp for stamp in stamps]]
    made = read(write(tmp_path, "trace.csv", rows))
    assert made.arrival.tolist() == [stamp * SECOND // 10**6 for stamp in stamps]
    assert made.source["shifted_s"] == -late


def test_stamps_count_from_the_first_request_that_is_no_bad_row(tmp_path: Path) -> None:
    """A failed request (0 tokens) before it makes no idle time."""
    rows = [{**PLAIN, "arrival_s": 10, "output_tokens": 0}, *({**PLAIN, "arrival_s": at} for at in (15, 17))]
    made = read(write(tmp_path, "trace.csv", rows), skip_bad=True)
    assert made.arrival.tolist() == [0, 2 * SECOND] and made.source["shifted_s"] == -15


def test_a_trace_that_begins_at_0_is_not_moved(tmp_path: Path) -> None:
    made = read(write(tmp_path, "trace.csv", [{**PLAIN, "arrival_s": at} for at in (0, 3600)]))
    assert made.arrival.tolist() == [0, 3600 * SECOND] and "shifted_s" not in made.source


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_sorting_is_stable_and_noted(stamps: list[int]) -> None:
    rows = [{"arrival_s": stamp, "prompt_tokens": at + 1, "output_tokens": 1} for at, stamp in enumerate(stamps)]
    with tempfile.TemporaryDirectory() as folder:
        made = read(write(Path(folder), "trace.jsonl", rows))
    order = sorted(range(len(stamps)), key=lambda row: stamps[row])
    assert made.prompt.tolist() == [row + 1 for row in order]
    assert made.source["moved"] == sum(at != row for at, row in enumerate(order))


def test_limit_reads_the_first_rows_of_the_file(tmp_path: Path) -> None:
    rows = [{**PLAIN, "prompt_tokens": at} for at in range(1, 9)]
    for name in FORMS:
        assert read(write(tmp_path, name, rows), limit=3).prompt.tolist() == [1, 2, 3]


BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n118,ChatGPT,417,276,693,API log\n"
)


def test_burstgpt_as_published(tmp_path: Path) -> None:
    made = read(put(tmp_path, "b.csv", BURSTGPT)).check()
    assert made.source["format"] == "burstgpt" and made.model is not None and made.tenant is not None
    assert made.arrival.tolist() == [0, 40 * SECOND, 113 * SECOND]
    assert (made.prompt.tolist(), made.output.tolist()) == ([472, 1087, 417], [18, 230, 276])
    assert (made.models, made.model.tolist(), made.tenant.tolist()) == (("ChatGPT", "GPT-4"), [0, 1, 0], [0, 1, 1])
    assert made.session is None


def test_later_burstgpt_has_sessions(tmp_path: Path) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,s1,3.2,GPT-4,472,18,490,Conversation log\n6,,1,GPT-4,10,230,240,API log\n"
        "9,s1,2,GPT-4,17,276,293,Conversation log\n"
    )
    made = read(put(tmp_path, "b.csv", text))
    assert made.session is not None and made.session.tolist() == [0, -1, 0]


def test_a_failed_request_of_burstgpt_is_a_bad_row(tmp_path: Path) -> None:
    path = put(tmp_path, "b.csv", BURSTGPT + "200,GPT-4,50,0,50,API log\n")
    with pytest.raises(TraceError, match="line 5: response_tokens is '0'"):
        read(path)
    assert len(read(path, skip_bad=True)) == 3


MOONCAKE = [
    {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
    {"timestamp": 250, "input_length": 1500, "output_length": 6, "hash_ids": [7, 8, 11]},
    {"timestamp": 3000, "input_length": 2000, "output_length": 7, "hash_ids": [7]},
    {"timestamp": 3000, "input_length": 100, "output_length": 7, "hash_ids": []},
]


def test_mooncake(tmp_path: Path) -> None:
    made = read(put(tmp_path, "m.jsonl", as_jsonl(MOONCAKE)))
    assert made.source["format"] == "mooncake" and made.source["block_tokens"] == 512
    assert made.arrival.tolist() == [0, SECOND // 4, 3 * SECOND, 3 * SECOND]
    assert [extents(made, row) for row in range(4)] == [
        [(7, 512), (8, 1024), (9, 1100)],
        [(7, 512), (8, 1024), (11, 1500)],
        [(7, 512)],
        [],
    ]
    assert made.reachable_tokens(512).tolist() == [0, 1024, 512, 0]


@pytest.mark.parametrize("name", ["trace.csv", "trace.jsonl", "trace.json", "trace.parquet"])
def test_ids_of_blocks_in_every_form(tmp_path: Path, name: str) -> None:
    rows = [{**PLAIN, "prompt_tokens": 40, "hash_ids": ids} for ids in ([1, 2, 3], [1, 2], [], [5])]
    made = read(write(tmp_path, name, rows), block_tokens=16)
    assert [extents(made, row) for row in range(4)] == [[(1, 16), (2, 32), (3, 40)], [(1, 16), (2, 32)], [], [(5, 16)]]


@pytest.mark.parametrize("ids", [["f3", "a0"], [2**64 - 1, 2**63], [-5, -9]])
def test_hashes_become_small_numbers(tmp_path: Path, ids: list[Any]) -> None:
    rows = [{**PLAIN, "prompt_tokens": 40, "hash_ids": ids}, {**PLAIN, "prompt_tokens": 40, "hash_ids": ids[:1]}]
    made = read(write(tmp_path, "trace.jsonl", rows), block_tokens=16)
    assert [extents(made, row) for row in range(2)] == [[(0, 16), (1, 32)], [(0, 16)]]


def test_an_id_that_ends_differently_is_shared_to_its_shortest_end(tmp_path: Path) -> None:
    rows = [{**PLAIN, "prompt_tokens": tokens, "hash_ids": [1, 2]} for tokens in (40, 25, 48)]
    made = read(write(tmp_path, "trace.jsonl", rows), block_tokens=16)
    assert [extents(made, row)[1] for row in range(3)] == [(2, 25)] * 3


def test_joins_by_row_number_and_by_id(tmp_path: Path) -> None:
    by_row = [
        {"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1, "after": None, "delay_s": None},
        {"arrival_s": None, "prompt_tokens": 2, "output_tokens": 1, "after": 0, "delay_s": 2.5},
        {"arrival_s": 1, "prompt_tokens": 3, "output_tokens": 1, "after": None, "delay_s": None},
        {"arrival_s": None, "prompt_tokens": 4, "output_tokens": 1, "after": 1, "delay_s": 0},
    ]
    names = ["w", "x", "y", "z"]
    by_id = [
        {**row, "request_id": names[at], "after": None if row["after"] is None else names[row["after"]]}
        for at, row in enumerate(by_row)
    ]
    for rows in (by_row, by_id):
        for form in FORMS:
            made = read(write(tmp_path, form, rows))
            assert made.prompt.tolist() == [1, 3, 2, 4]
            assert [predecessors(made, row) for row in range(4)] == [[], [], [0], [2]]
            assert made.delay is not None and made.delay.tolist() == [0, 0, 5 * SECOND // 2, 0]
            assert made.arrival.tolist() == [0, SECOND, 5 * SECOND // 2, 5 * SECOND // 2]


def test_a_join_of_several_that_come_later_in_the_file(tmp_path: Path) -> None:
    text = (
        "id,arrival_s,prompt_tokens,output_tokens,after,delay_s\n"
        "sum,,9,1,a;b,1\n" + "a,4,1,1,,\n" + "b,2,2,1,,\n" + "end,0,3,1,sum,0\n"
    )
    made = read(put(tmp_path, "t.csv", text))
    assert made.prompt.tolist() == [2, 1, 9, 3]
    assert [sorted(predecessors(made, row)) for row in range(4)] == [[], [], [0, 1], [2]]
    assert made.arrival.tolist() == [0, 2 * SECOND, 3 * SECOND, 3 * SECOND]


def test_predecessors_come_first_even_at_one_instant(tmp_path: Path) -> None:
    text = "id,arrival_s,prompt_tokens,output_tokens,after\n" + "c,,3,1,b\n" + "b,,2,1,a\n" + "a,0,1,1,\n"
    assert read(put(tmp_path, "t.csv", text)).prompt.tolist() == [1, 2, 3]


def test_minus_one_waits_for_none(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens,after\n0,1,1,-1\n0,2,1,0\n"
    made = read(put(tmp_path, "t.csv", text))
    assert [predecessors(made, row) for row in range(2)] == [[], [0]]


def test_lengths_alone(tmp_path: Path) -> None:
    pairs = read_lengths(put(tmp_path, "t.csv", "prompt_tokens,output_tokens\n5,6\n7,8\n"))
    assert (pairs.prompt.tolist(), pairs.output.tolist()) == ([5, 7], [6, 8])
    again = read_lengths(put(tmp_path, "m.jsonl", as_jsonl(MOONCAKE)), limit=2)
    assert again.prompt.tolist() == [1100, 1500]


def test_names_are_numbered_by_appearance_in_every_form(tmp_path: Path) -> None:
    names = ["b", "a", None, " b", "-1", "", "1"]
    rows = [{**PLAIN, "tenant": name} for name in names]
    for form in FORMS:
        made = read(write(tmp_path, form, rows))
        assert made.tenant is not None and made.tenant.tolist() == [0, 1, -1, 0, -1, -1, 2]
    mixed = [{**PLAIN, "tenant": name} for name in (1, True, "1", 1.0, [1])]
    made = read(write(tmp_path, "trace.jsonl", mixed))
    assert made.tenant is not None and made.tenant.tolist() == [0, 1, 0, 2, 3]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("client,window_start_s,rate_rps,cv,pattern,param1,param2", "servegen: {arrivals: FILE"),
        ("client,window_start_s,field,mean,q0,q50,q100", "servegen: {arrivals: FILE}"),
        ("time_bin,avg_turns,requests", "diurnal: {counts: FILE}"),
        ("prompt_tokens,output_tokens", "poisson: {rate: 5, lengths: FILE}"),
    ],
)
def test_files_that_are_no_traces_are_refused(tmp_path: Path, header: str, message: str) -> None:
    path = put(tmp_path, "t.csv", header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")
    with pytest.raises(TraceError) as caught:
        read(path)
    assert message in str(caught.value)


def test_sound_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding the line of a row costs another pass in plain Python; a sound file must not pay for it."""

    def never(lines: object, row: int) -> str:
        raise AssertionError("the line of a sound row was looked up")

    monkeypatch.setattr(file._Lines, "__call__", never)
    rows = [{**PLAIN, "arrival_s": float(at)} for at in np.arange(50)]
    assert len(read(write(tmp_path, "trace.csv", rows))) == 50
