"""One row for each request, for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.records.blame import PARTS
from poise.core.records.records import STATUS, Run
from poise.core.units import SECOND
from poise.report.files import replacing
from poise.report.latency import column

if TYPE_CHECKING:
    import pandas
    from polars import DataFrame

    from poise.workload.table import Workload

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}

SHOWN = 5
"""Requests that a notebook shows."""

_INSTANTS = {
    "arrival_s": "arrived_at",
    "dispatched_s": "dispatched_at",
    "first_token_s": "first_token_at",
    "ended_s": "ended_at",
}
_COUNTS = ("prompt_tokens", "output_tokens", "cached_tokens", "preemptions", "migrations", "retries")


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The requests of a run as a table, made when it is asked for."""

    run: Run

    def __len__(self) -> int:
        return int((column(self.run.records.arrived_at) >= 0).sum())

    def frame(self) -> DataFrame:
        """A row for each request that arrived (see `requests_frame`), as a polars frame."""
        return requests_frame(self.run)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame; UserError without pandas, the extra `pandas`."""
        from poise.report.optional import to_pandas

        return to_pandas(self.frame())

    def __repr__(self) -> str:
        return f"<RequestTable: {len(self):,} requests; .frame() or .to_pandas()>"

    def _repr_html_(self) -> str:
        """The first requests."""
        from poise.core.card import card, table

        head = self.frame().head(SHOWN)
        rows = [
            ["–" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row]
            for row in head.rows()
        ]
        return card(f"{len(self):,} requests, the first {len(rows)}", table(head.columns, rows))


def save_requests(run: Run, path: str | Path, workload: Workload | None = None) -> None:
    """Write a row for each request that arrived to a `.parquet`, `.csv` or `.jsonl` file, whole or not at all.

    Instants and durations are float seconds; what never happened is null. With the `workload` of the run, its client
    columns are written, too. Raises `UserError` for another ending and for a path that cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise UserError(
            f"{path}: the ending {ending or '(none)'} names no known format; end the name in one of {known}"
        )
    with replacing(path) as file:
        getattr(requests_frame(run, workload), _WRITERS[ending])(file)


def packed_requests(run: Run) -> bytes:
    """The rows of `save_requests` as a Parquet file in memory."""
    file = BytesIO()
    requests_frame(run).write_parquet(file)
    return file.getvalue()


def requests_frame(run: Run, workload: Workload | None = None) -> DataFrame:
    """The rows of `save_requests` as a polars frame, in the order of request ids.

    `tpot_s` is null for outputs of fewer than two tokens; `ttft_s`, `tpot_s` and `e2e_s` are given for every request
    that got so far, finished or not, while the metrics quote finished ones only. A run that recorded blame has a
    column for each part of both stretches: `ttft_queue_s`, …, `rest_decode_s`, …
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
    if workload is not None:
        columns |= _clients(workload, chosen)
    if run.blame is not None:
        for stretch, parts in (("ttft", run.blame.ttft), ("rest", run.blame.rest)):
            columns |= {
                f"{stretch}_{name}_s": column(part)[chosen] / SECOND for name, part in zip(PARTS, parts, strict=True)
            }
    return pl.DataFrame(columns)


def _clients(workload: Workload, chosen: NDArray[np.signedinteger[Any]]) -> dict[str, Any]:
    """Model, tenant, session and the turn in it (from 1) of the chosen rows, where the workload has them."""
    fields: dict[str, Any] = {}
    if workload.model is not None:
        fields["model"] = [workload.models[each] for each in workload.model[chosen]]
    if workload.tenant is not None:
        fields["tenant"] = workload.tenant[chosen]
    if workload.session is not None:
        fields["session"], fields["turn"] = workload.session[chosen], _turns(workload.session)[chosen]
    return fields


def _turns(session: NDArray[np.int32]) -> NDArray[np.int64]:
    """The turn of each row in its session, from 1; 0 for rows of none."""
    order = np.argsort(session, kind="stable")
    sorted_ = session[order]
    begins = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    turns = np.empty(len(session), dtype=np.int64)
    turns[order] = np.arange(len(session)) - np.repeat(begins, np.diff(np.r_[begins, len(session)])) + 1
    return np.where(session < 0, 0, turns)
