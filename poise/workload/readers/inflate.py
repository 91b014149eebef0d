"""Compressed bytes as what they hold, up to a bound: a file of one megabyte may inflate to a thousand."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from poise.core.errors import TraceError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""What a compressed stream begins with."""

MOST_FOLD = 100
"""The most that a file may inflate, as a multiple of its size: traces reach 3 to 30."""

FREE_BYTES = 256 << 20
"""Up to here it may inflate however small it is: 90 MB of an agent's prompt ids have been seen in 230 kB."""

CHUNK_BYTES = 1 << 20

ZSTD_BLOCK_BYTES = 128 << 10
"""What a compressed block of zstd holds at most (RFC 8878, 3.1.1.2.4)."""

SKIPPABLE = range(0x184D2A50, 0x184D2A60)
"""Magic numbers of zstd frames that hold nothing to read."""


def most_bytes(packed: int) -> int:
    """Bytes that a file of `packed` bytes may inflate to."""
    return max(FREE_BYTES, MOST_FOLD * packed)


def inflate(data: bytes, path: Path) -> bytes:
    """What the bytes `data` of the file `path` hold, inflated where they are gzip or zstd, by their first bytes.

    TraceError, naming the file, for a broken stream and for one that holds more than `most_bytes`: no trace keeps that
    much in memory by mistake.
    """
    if data[:2] == GZIP:
        return gunzip(data, path)
    return _unzstd(data, path) if data[:4] == ZSTD else data


def gunzip(data: bytes, path: Path) -> bytes:
    """What the gzip stream `data` of the file `path` holds; errors as in `inflate`."""
    most = most_bytes(len(data))
    chunks: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                size += len(chunk)
                if size > most:
                    raise _too_much(path, len(data))
                chunks.append(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: the gzip stream is broken ({error}); fetch or compress the file again") from None
    return b"".join(chunks)


def _too_much(path: Path, packed: int) -> TraceError:
    return TraceError(
        f"{path}: its {packed:,} bytes inflate to more than {most_bytes(packed):,}; at most {MOST_FOLD} times its "
        f"size, or {FREE_BYTES:,} bytes, is read, so give the decompressed file if it is meant to be that large"
    )


def _unzstd(data: bytes, path: Path) -> bytes:
    """The text in a zstd stream, by way of polars' CSV reader: Python 3.11 has no zstd of its own."""
    import polars as pl

    if zstd_bytes(data) > most_bytes(len(data)):
        raise _too_much(path, len(data))
    try:
        # A separator and quotes that no text has make one column of whole lines; an empty line is null.
        table = pl.read_csv(
            data, has_header=False, separator="\0", quote_char=None, infer_schema=False, raise_if_empty=False
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        message = str(error).splitlines()[0]
        raise TraceError(f"{path}: the zstd stream is broken ({message}); fetch or compress the file again") from None
    return "\n".join(table.to_series().fill_null("").to_list()).encode() if table.width else b""


def zstd_bytes(data: bytes) -> int:
    """Bytes that a zstd stream inflates to at most, from the headers of its frames and blocks (RFC 8878, 3.1.1).

    A raw or repeated block states its size; a compressed one holds at most its frame's window, and at most 128 KiB. The
    size in the frame's header is not trusted. Where the stream breaks off the rest counts as nothing.
    """
    at = total = 0
    while True:
        magic = data[at : at + 4]
        if magic == ZSTD:
            at, held = _frame(data, at + 4)
            total += held
        elif int.from_bytes(magic, "little") in SKIPPABLE:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        else:
            return total


def _frame(data: bytes, at: int) -> tuple[int, int]:
    """Where the frame whose header begins at `at` ends, and the bytes that it holds at most."""
    flags = int.from_bytes(data[at : at + 1], "little")
    single = bool(flags & 32)
    size_bytes = (1 if single else 0, 2, 4, 8)[flags >> 6]
    begin = at + 1 + (not single) + (0, 1, 2, 4)[flags & 3]
    if single:
        window = int.from_bytes(data[begin : begin + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    else:
        exponent, eighths = divmod(int.from_bytes(data[at + 1 : at + 2], "little"), 8)
        window = (8 + eighths) << (7 + exponent)
    at, held, last = begin + size_bytes, 0, False
    while not last and at < len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        held += size if kind < 2 else min(window, ZSTD_BLOCK_BYTES)
        at += 3 + (1 if kind == 1 else size)  # a repeated block is one byte and its count
    return at + 4 * bool(flags & 4), held
