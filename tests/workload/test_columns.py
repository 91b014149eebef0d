"""Columns named by the user, suggestions for near misses, and the exports of gateways and tracing services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import poise as ps
from poise.cli import main
from poise.core.errors import TraceError, UserError
from poise.core.units import SECOND
from poise.workload.readers import column_map
from poise.workload.readers.named import parse_columns
from tests.workload.agent_files import conversation, put_lines, request

ODD = "created at;in tok;out tok\n2026-01-01 10:00:00;100;20\n2026-01-01 10:00:02.5;300;7\n"
NAMED = {"arrival_s": "created at", "prompt_tokens": "in tok", "output_tokens": "out tok"}


def rows_of(workload: Any) -> list[tuple[float, int, int]]:
    return [
        (workload.arrival[row] / SECOND, workload.prompt[row], workload.output[row]) for row in range(len(workload))
    ]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_columns_that_are_named_are_read(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(ODD)
    assert rows_of(ps.workload.read(file, columns=NAMED)) == [(0.0, 100, 20), (2.5, 300, 7)]
    pairs = ps.workload.read_lengths(file, columns=NAMED)
    assert [list(each) for each in (pairs.prompt, pairs.output)] == [[100, 300], [20, 7]]


def test_a_column_in_milliseconds_says_so_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("at ms,in,out\n0,1,1\n2500,1,1\n")
    found = ps.workload.read(file, columns={"arrival_s": "at ms", "prompt_tokens": "in", "output_tokens": "out"})
    assert rows_of(found) == [(0.0, 1, 1), (2.5, 1, 1)]


def test_near_misses_are_suggested_with_the_option_that_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(ODD)
    with pytest.raises(TraceError) as error:
        ps.workload.read(file)
    message = str(error.value)
    assert "--columns arrival_s=created_at,prompt_tokens=in_tok,output_tokens=out_tok" in message
    assert "columns: {arrival_s: created_at, prompt_tokens: in_tok, output_tokens: out_tok}" in message
    assert len(message) < 400 + len(str(file))


def test_a_wide_file_lists_only_some_of_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(",".join(f"x{number:02}" for number in range(40)) + "\n" + ",".join("1" * 40) + "\n")
    with pytest.raises(TraceError, match=r"x11 and 28 more; name them by columns: \{arrival_s: …"):
        ps.workload.read(file)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival": "created at"}, "'arrival' is not a field of a request; did you mean arrival_s?"),
        ({"arrival_s": "creatd at"}, "no column has that name; did you mean 'created_at'?"),
        ({"prompt_tokens": "zzz"}, "no column has that name; the file has created_at, in_tok, out_tok"),
    ],
)
def test_what_is_named_must_be_there(columns: dict[str, str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(ODD)
    with pytest.raises(TraceError) as error:
        ps.workload.read(file, columns=NAMED | columns)
    assert message in str(error.value)


def test_a_column_twice_is_refused_where_it_counts(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("note,arrival_s,prompt_tokens,Prompt tokens,output_tokens,note\na,0,1,2,3,b\n")
    with pytest.raises(TraceError, match="header has 'prompt_tokens' twice, which holds prompt_tokens; rename one"):
        ps.workload.read(file)
    file.write_text("note,arrival_s,prompt_tokens,output_tokens,note\na,0,1,3,b\n")
    assert rows_of(ps.workload.read(file)) == [(0.0, 1, 3)]


def test_nested_fields_have_paths(tmp_path: Path) -> None:
    rows = [{"at": at, "u": {"in": {"text": 10 + at}, "out": 5}} for at in (0, 3)]
    found = ps.workload.read(
        lines(tmp_path / "log.jsonl", *rows),
        columns={"arrival_s": "at", "prompt_tokens": "u.in.text", "output_tokens": "u.out"},
    )
    assert rows_of(found) == [(0.0, 10, 5), (3.0, 13, 5)]


def usage(prompt: int, output: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


@pytest.mark.parametrize(
    "around",
    [
        lambda body: body,
        lambda body: {"request": {}, "response": body},
        lambda body: {"custom_id": "1", "response": {"status_code": 200, "body": body}},
    ],
)
def test_responses_of_openai(around: Any, tmp_path: Path) -> None:
    bodies = [
        {"id": f"chatcmpl-{row}", "object": "chat.completion", "created": 1_767_225_600 + 2 * row, "model": "m",
         "choices": [], "usage": usage(100 + row, 20)}
        for row in range(2)
    ]  # fmt: skip
    found = ps.workload.read(lines(tmp_path / "log.jsonl", *map(around, bodies)))
    assert found.source["format"] == "openai"
    assert rows_of(found) == [(0.0, 100, 20), (2.0, 101, 20)]


def test_the_responses_api(tmp_path: Path) -> None:
    rows = [
        {"object": "response", "created_at": 5 + row, "usage": {"input_tokens": 9, "output_tokens": 4}}
        for row in (0, 1)
    ]
    assert rows_of(ps.workload.read(lines(tmp_path / "log.jsonl", *rows)))[1] == (1.0, 9, 4)


def test_spend_logs_of_litellm(tmp_path: Path) -> None:
    rows = [
        {"request_id": str(row), "call_type": "acompletion", "spend": 0.01, "prompt_tokens": 50, "completion_tokens": 8,
         "total_tokens": 58, "startTime": f"2026-02-03T04:05:0{row}.250Z", "model": "m",
         "team_id": "red", "session_id": "s"}
        for row in range(2)
    ]  # fmt: skip
    found = ps.workload.read(lines(tmp_path / "spend.jsonl", *rows))
    assert found.source["format"] == "litellm" and rows_of(found) == [(0.0, 50, 8), (1.0, 50, 8)]
    assert list(found.tenant) == list(found.session) == [0, 0]


def test_observations_of_langfuse(tmp_path: Path) -> None:
    def row(at: int, kind: str, **more: Any) -> dict[str, Any]:
        return {"id": str(at), "traceId": "t", "type": kind, "startTime": f"2026-02-03T04:05:0{at}Z", **more}

    rows = [
        row(0, "SPAN"),
        row(1, "GENERATION", usage={"input": 10, "output": 3}, model="m"),
        row(4, "GENERATION", usage={"input": 11, "output": 2}, model="m"),
        row(5, "EVENT"),
    ]
    found = ps.workload.read(lines(tmp_path / "observations.jsonl", *rows))
    assert found.source["format"] == "langfuse" and rows_of(found) == [(0.0, 10, 3), (3.0, 11, 2)]


def test_the_option_names_columns_with_blanks_and_commas() -> None:
    assert parse_columns('arrival_s=created at, "prompt_tokens=in, total"') == {
        "arrival_s": "created at", "prompt_tokens": "in, total",
    }  # fmt: skip
    for text in ("created", "=x", "arrival_s="):
        with pytest.raises(UserError, match="names no column; give FIELD=COLUMN, as in arrival_s=created"):
            parse_columns(text)


@pytest.mark.parametrize("command", ["simulate", "compare", "plan"])
def test_the_option_acts_in_every_command(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log.csv"
    file.write_text("created at;in tok;out tok\n" + "".join(f"{row * 0.2:.1f};200;10\n" for row in range(400)))
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "model: llama-3.1-8b\ncluster: {pools: [{device: H100, replicas: 2}]}\nworkload: {trace: log.csv}\n"
        "policies: {router: round_robin}\n"
    )
    more = {
        "simulate": [str(scenario)],
        "compare": [str(scenario), "--policies", "round_robin,least_requests", "--loads", "1"],
        "plan": [
            str(file),
            "--model",
            "llama-3.1-8b",
            "--slo",
            "ttft_s=1,tpot_s=0.1",
            "--devices",
            "L4",
            "--jobs",
            "1",
        ],
    }[command]
    named = "arrival_s=created at,prompt_tokens=in tok,output_tokens=out tok"
    assert main([command, *more, "--quiet", "--columns", named]) == 0
    assert main([command, *more, "--quiet"]) == 2
    assert "--columns arrival_s=created_at,prompt_tokens=in_tok,output_tokens=out_tok" in capsys.readouterr().err


def test_a_map_of_columns_says_what_is_found_and_what_is_likely(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("created at;prompt tokens;out tok;tenant\n1;100;20;a\n")
    found = column_map(file)
    assert sorted(found.columns) == ["created_at", "out_tok", "prompt_tokens", "tenant"]
    assert found.fields == {"prompt_tokens": "prompt_tokens", "tenant": "tenant"}
    assert found.missing == ("arrival_s", "output_tokens")
    assert found.suggested == {"arrival_s": "created_at", "output_tokens": "out_tok"}
    named = column_map(file, columns=found.suggested)
    assert named.missing == ()
    assert named.fields["output_tokens"] == "out_tok"
    with pytest.raises(TraceError, match="no column has that name"):
        column_map(file, columns={"arrival_s": "nothing"})


def test_a_map_of_columns_needs_columns(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("{broken\n")
    with pytest.raises(TraceError, match="line 1"):
        column_map(file)


def test_conversations_need_no_columns(tmp_path: Path) -> None:
    file = put_lines(tmp_path, [conversation([request(0, 640, 10)])])
    found = column_map(file)
    assert (found.format, found.missing) == ("weka", ())
