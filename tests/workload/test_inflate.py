"""A compressed file is inflated up to a bound; whole streams come back as they were."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import TraceError
from poise.workload import read
from poise.workload.readers import file
from poise.workload.readers import inflate as subject
from poise.workload.readers.inflate import MOST_FOLD, inflate, most_bytes, zstd_bytes

FILE = Path("t.csv.gz")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be inflated of however small a file is 64 KiB here."""
    monkeypatch.setattr(subject, "FREE_BYTES", 1 << 16)


def repeated(blocks: int, size: int = (1 << 21) - 1) -> bytes:
    """A zstd stream (RFC 8878) of blocks that repeat one byte: four bytes for `size`."""
    each = [(size << 3 | 2 | (at == blocks - 1)).to_bytes(3, "little") + b"a" for at in range(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x88" + b"".join(each)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_gzip_comes_back_member_by_member(first: bytes, second: bytes) -> None:
    assert inflate(gzip.compress(first) + gzip.compress(second), FILE) == first + second


def test_a_gzip_file_inflates_to_its_bound_and_no_further(small: None, tmp_path: Path) -> None:
    assert len(inflate(gzip.compress(bytes(1 << 16)), FILE)) == 1 << 16
    packed = gzip.compress(bytes((1 << 16) + 1))
    with pytest.raises(TraceError, match=r"^t.csv.gz: its \d+ bytes inflate to more than 65,536; at most 100 times"):
        inflate(packed, FILE)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    with pytest.raises(TraceError, match="give the decompressed file if it is meant"):
        read(tmp_path / "t.csv.gz")


def test_a_large_file_may_inflate_to_a_hundred_times_its_size(small: None) -> None:
    assert most_bytes(10) == 1 << 16
    assert most_bytes(1 << 20) == MOST_FOLD << 20


def test_a_zstd_file_is_refused_by_the_headers_of_its_blocks(small: None) -> None:
    with pytest.raises(TraceError, match="inflate to more than 65,536"):
        inflate(repeated(1), FILE)
    assert zstd_bytes(repeated(3)) == 3 * ((1 << 21) - 1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=2000), st.integers(1, 3))
def test_zstd_holds_at_most_what_its_headers_say(values: list[int], frames: int) -> None:
    table = pl.DataFrame({"a": values * 100})
    packed = io.BytesIO()
    table.write_csv(packed, compression="zstd")
    whole = len(table.write_csv()) * frames
    skipped = (0x184D2A55).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    found = zstd_bytes(skipped + packed.getvalue() * frames)
    assert whole <= found <= whole + frames * subject.ZSTD_BLOCK_BYTES


@given(st.binary(max_size=60))
def test_headers_that_mean_nothing_are_read_to_their_end(rest: bytes) -> None:
    assert zstd_bytes(subject.ZSTD + rest) >= 0


def test_parquet_of_more_rows_than_its_size_could_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"arrival_s": [0.0] * 2000, "prompt_tokens": [1] * 2000, "output_tokens": [1] * 2000}).write_parquet(
        path
    )
    assert len(read(path)) == 2000
    monkeypatch.setattr(file, "most_bytes", lambda packed: 8 * 1000)
    with pytest.raises(TraceError, match=r"bytes hold 2,000 rows; at most 1,000 rows are read of a file of that size"):
        read(path)
    assert len(read(path, limit=1000)) == 1000


def test_a_parquet_file_at_which_its_decoder_panics_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)

    def panics(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(pl, "read_parquet", panics)
    with pytest.raises(TraceError, match=r"broken Parquet \(index out of bounds\)"):
        read(path)
