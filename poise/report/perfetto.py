"""The timeline of a run as a Chrome trace for ui.perfetto.dev or chrome://tracing.

Requests are its asynchronous events, phases b and e. Instants are cut to whole nanoseconds before they are written as
microseconds, so slices that follow one another still do so exactly.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from poise.core.chrome_trace import Event, complete, counter, label, written
from poise.core.records.records import STATUS, Run
from poise.core.spec import Cluster
from poise.report.files import replacing
from poise.report.spending import pools_by_replica

_LANES = 1000
"""Thread ids are replica · _LANES + lane, for viewers that want them unique across processes."""

_FAULTS = 999
"""The lane number under which a replica's faults are drawn."""

_COUNTERS = ("waiting", "running", "KV blocks")


def timeline(run: Run, path: str | Path, *, requests: int = 1000, cluster: Cluster | None = None) -> None:
    """Write the timeline of `run` to `path` as JSON, gzipped where the name ends in `.gz`.

    A process for each replica, a thread for each lane with its batches, counters of waiting, running and KV blocks, its
    faults, and the life of the first `requests` requests to arrive. `cluster` gives names to replicas and lanes.
    Written event by event; raises `UserError` when `path` cannot be written.
    """
    with replacing(path) as file:
        if str(path).endswith(".gz"):
            # No name and no time inside, so equal runs give equal bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                packed.writelines(written(_events(run, requests, cluster)))
        else:
            file.writelines(written(_events(run, requests, cluster)))


def _events(run: Run, requests: int, cluster: Cluster | None) -> Iterator[Event]:
    yield from _names(run, cluster)
    yield from _slices(run)
    yield from _faults(run)
    yield from _counters(run)
    yield from _lives(run, requests)


def _us(instant: int) -> float:
    """Picoseconds to microseconds, cut to whole nanoseconds."""
    return instant // 1000 / 1000


def _process(replica: int) -> int:
    """The process of a replica; 0 means the idle task to some viewers."""
    return replica + 1


def _thread(replica: int, lane: int) -> int:
    return _process(replica) * _LANES + lane


def _names(run: Run, cluster: Cluster | None) -> Iterator[Event]:
    """Names of processes and threads."""
    pools = pools_by_replica(cluster) if cluster else []
    lanes = {(replica, lane) for _, _, replica, lane, _, _ in run.slices}
    for replica in range(len(run.replicas)):
        pool = pools[replica] if replica < len(pools) else None
        about = f" ({pool.model.name}, {pool.devices} × {pool.device.name}, {pool.role})" if pool else ""
        yield label("process_name", f"replica {replica}{about}", _process(replica))
    for replica, lane in sorted(lanes):
        named = pools[replica].engine.lanes if replica < len(pools) else ()
        name = f"lane {named[lane].name}" if lane < len(named) else f"lane {lane}"
        yield label("thread_name", name, _process(replica), _thread(replica, lane))
    for replica in sorted({each.replica for each in run.faults}):
        yield label("thread_name", "faults", _process(replica), _thread(replica, _FAULTS))
    yield label("process_name", "requests", _process(len(run.replicas)))


def _batch(decodes: int, prompt_tokens: int) -> str:
    """A batch in words."""
    parts = [f"prefill {prompt_tokens}"] if prompt_tokens else []
    if decodes:
        parts.append(f"{decodes} decode{'' if decodes == 1 else 's'}")
    return " + ".join(parts) or "idle step"


def _slices(run: Run) -> Iterator[Event]:
    """One complete event for each held batch."""
    for start, end, replica, lane, decodes, prompt_tokens in run.slices:
        args = {"decodes": decodes, "prompt_tokens": prompt_tokens}
        yield _slice(_batch(decodes, prompt_tokens), replica, lane, start, end, args=args)


def _slice(name: str, replica: int, lane: int, start: int, end: int, **more: object) -> Event:
    length = (end // 1000 - start // 1000) / 1000
    return complete(name, _process(replica), _thread(replica, lane), _us(start), length, **more)


def _faults(run: Run) -> Iterator[Event]:
    """One complete event for each fault, up to the end of the run."""
    for at, until, kind, replica in run.faults:
        if at <= run.ended_at:
            yield _slice(kind, replica, _FAULTS, at, min(until, run.ended_at))


def _counters(run: Run) -> Iterator[Event]:
    """One counter event for each sampled value that differs from the one before."""
    last: dict[tuple[int, str], int] = {}
    for at, replica, *values in run.samples:
        for name, value in zip(_COUNTERS, values, strict=True):
            if last.get((replica, name)) == value:
                continue
            last[replica, name] = value
            yield counter(name, _process(replica), _us(at), **{name: value})


def _lives(run: Run, requests: int) -> Iterator[Event]:
    """Nested asynchronous events: the request as a whole and within it queue, prefill and decode.

    `prefill` begins at the dispatch to a replica, so the wait inside the replica is in it. What has not ended
    when the run ends is closed there.
    """
    records = run.records
    arrived = (i for i in range(records.rows) if records.arrived_at[i] >= 0)
    process = _process(len(run.replicas))
    for _, request in zip(range(requests), arrived, strict=False):
        marks = [records.arrived_at[request], records.dispatched_at[request], records.first_token_at[request]]
        ended = records.ended_at[request]
        ended = run.ended_at if ended < 0 else ended
        common = {"cat": "request", "id": request, "pid": process, "tid": process * _LANES}
        args = {
            "status": STATUS[records.status[request]],
            "replica": records.replica[request],
            "prompt_tokens": records.prompt_tokens[request],
            "cached_tokens": records.cached_tokens[request],
            "output_tokens": records.output_tokens[request],
        }
        yield {"ph": "b", "name": f"request {request}", "ts": _us(marks[0]), "args": args, **common}
        for at, name in enumerate(("queue", "prefill", "decode")):
            if marks[at] < 0:
                continue
            until = next((mark for mark in marks[at + 1 :] if mark >= 0), ended)
            yield {"ph": "b", "name": name, "ts": _us(marks[at]), **common}
            yield {"ph": "e", "name": name, "ts": _us(until), **common}
        yield {"ph": "e", "name": f"request {request}", "ts": _us(ended), **common}
