"""One row for each request, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.records import STATUS, Run
from poise.core.units import SECOND
from poise.report.files import replacing
from poise.report.latency import column

if TYPE_CHECKING:
    from polars import DataFrame

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}

_INSTANTS = {
    "arrival_s": "arrived_at",
    "dispatched_s": "dispatched_at",
    "first_token_s": "first_token_at",
    "ended_s": "ended_at",
}
_COUNTS = ("prompt_tokens", "output_tokens", "cached_tokens", "preemptions", "migrations", "retries")


def save_requests(run: Run, path: str | Path) -> None:
    """Write a row for each request that arrived to a `.parquet`, `.csv` or `.jsonl` file, whole or not at all.

    Instants and durations are float seconds; what never happened is null. Raises `UserError` for another ending and
    for a place that cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise UserError(
            f"{path}: the ending {ending or '(none)'} names no known format; end the name in one of {known}"
        )
    with replacing(path) as file:
        getattr(requests_frame(run), _WRITERS[ending])(file)


def requests_frame(run: Run) -> DataFrame:
    """The rows of `save_requests` as a polars frame, in the order of request ids.

    `tpot_s` is null for outputs of fewer than two tokens; `ttft_s`, `tpot_s` and `e2e_s` are given for every request
    that got so far, finished or not, while the metrics quote finished ones only.
    """
    import polars as pl

    records = run.records
    chosen = np.flatnonzero(column(records.arrived_at) >= 0)

    def taken(name: str) -> NDArray[np.signedinteger[Any]]:
        return column(getattr(records, name))[chosen]

    def known(values: NDArray[Any], where: NDArray[np.bool_]) -> pl.Series:
        return pl.Series(values).set(pl.Series(~where), None)

    instants = {name: taken(field) for name, field in _INSTANTS.items()}
    arrived, _, first, ended = instants.values()
    gaps = taken("output_tokens").astype(np.int64) - 1
    several = (gaps > 0) & (first >= 0) & (ended >= 0)
    names = pl.Series(STATUS, dtype=pl.Enum(STATUS))
    columns: dict[str, pl.Series | NDArray[Any]] = {
        "request": chosen,
        "status": names.gather(pl.Series(taken("status").astype(np.int64))),
        **{name: known(values / SECOND, values >= 0) for name, values in instants.items()},
        "ttft_s": known((first - arrived) / SECOND, first >= 0),
        "tpot_s": known((ended - first) / np.maximum(gaps, 1) / SECOND, several),
        "e2e_s": known((ended - arrived) / SECOND, ended >= 0),
        **{name: known(taken(name), taken(name) >= 0) for name in ("replica", "decode_replica")},
        **{name: taken(name) for name in _COUNTS},
    }
    return pl.DataFrame(columns)
