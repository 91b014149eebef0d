"""Rows of requests in each format."""

import polars as pl
import pytest

from poise.core.errors import UserError
from poise.core.records.records import REJECTED, STATUS
from poise.report.requests import requests_frame, save_requests

from .runs import Row, a_run

READERS = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson, "ndjson": pl.read_ndjson}

ROWS = [
    Row(0.25, 0.5, 1.25, 3.25, prompt=100, output=5, cached=32),
    Row(None),
    Row(1.0, status=REJECTED, ended=1.0, prompt=7, replica=-1),
]


@pytest.mark.parametrize("ending", READERS)
def test_every_format_gives_the_same_rows_back(tmp_path, ending):
    path = tmp_path / "new" / f"requests.{ending}"
    save_requests(a_run(ROWS), path)
    served, refused = READERS[ending](path).to_dicts()
    assert served == {
        "request": 0, "status": "finished", "arrival_s": 0.25, "dispatched_s": 0.5, "first_token_s": 1.25,
        "ended_s": 3.25, "ttft_s": 1.0, "tpot_s": 0.5, "e2e_s": 3.0, "replica": 0, "decode_replica": 0,
        "prompt_tokens": 100, "output_tokens": 5, "cached_tokens": 32, "preemptions": 0, "migrations": 0, "retries": 0,
    }  # fmt: skip
    assert (refused["request"], refused["status"], refused["e2e_s"]) == (2, "rejected", 0.0)
    unknown = {name for name, value in refused.items() if value is None}
    assert unknown == {"dispatched_s", "first_token_s", "ttft_s", "tpot_s", "replica", "decode_replica"}


def test_every_end_has_its_name():
    run = a_run([Row(0.0, status=end) for end in range(len(STATUS))])
    assert requests_frame(run)["status"].to_list() == list(STATUS)


def test_a_run_without_requests_has_the_columns_and_no_rows():
    assert requests_frame(a_run([])).columns == requests_frame(a_run(ROWS)).columns
    assert requests_frame(a_run([])).height == 0


@pytest.mark.parametrize("name", ["requests.xlsx", "requests"])
def test_an_unknown_ending_names_the_known_ones(tmp_path, name):
    with pytest.raises(UserError, match=r"\.parquet, \.csv, \.jsonl"):
        save_requests(a_run(ROWS), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
