"""The figures of a run, by the definitions of design sections 8 and 9, and their means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from poise.core.records.records import STATUS, Run
from poise.core.spec import Cluster, Slo
from poise.core.units import ps, seconds
from poise.report.blame import Means, means
from poise.report.conversations import Agents, agents
from poise.report.latency import Mask, Summary, column, counted, finished, latencies, since, summary
from poise.report.programs import Programs, Spans, in_time, spans
from poise.report.rates import Window, Work, best, offered, works
from poise.report.scaling import Scalings, replica_hours, scalings
from poise.report.seeds import fold, half_width, mean
from poise.report.spending import busy_time, dollars, joules


@dataclass(frozen=True, slots=True)
class BusyTime:
    """Share of time up with a step under way: per replica (None if never up), and the mean weighted by time up."""

    mean: float | None
    per_replica: list[float | None]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one run; field names are those of the result JSON; units are seconds, tokens, dollars and joules.

    requests: arrived after warm-up; each is one of finished, rejected, unfinished, timed_out, cancelled and lost.
    duration_s: from the end of warm-up to the end of the run.  window_s: the part of it in which requests arrived; all
    of it where requests wait for other requests.  offered_rps: requests per second that arrived in it.
    queue_s, ttft_s, tpot_s, e2e_s: of finished requests.  slo_attainment: a share of all `requests`.
    goodput_rps: the part of `offered_rps` that met every part of the SLO.  requests_per_s: finished requests.
    output_tokens_per_s, total_tokens_per_s, cost_…, energy_…: over the tokens of finished requests.  These rates of
    work count what is done within `window_s`, or in the whole run where that rate is higher (`report.rates`).
    prefix_hit_rate: cached over all prompt tokens, of requests whose prefill completed.
    preemptions, migrations, retries: totals over `requests`.
    loans, loans_refused, hedges, hedges_won, hedge_tokens: as in `Run`, for the whole run.
    blame: mean seconds of each part of the time of finished requests (`report.blame`), where the run recorded it.
    replica_hours: hours in which replicas occupied their devices, start-up included.
    scaling: the autoscaler's activity (`report.scaling`), where there is one.
    program_s, programs: time from first arrival to last end of finished programs, and their number, where there are any
    agents: figures of agents' conversations (`report.conversations`), where requests belong to such.
    counts: what decided about arrivals while it ran, as commits that were refused; for the whole run.
    notes: by figure name, why it is None or must be read with care.
    """

    requests: int
    finished: int
    rejected: int
    unfinished: int
    timed_out: int
    cancelled: int
    lost: int
    warmup_s: float
    duration_s: float
    window_s: float
    queue_s: Summary
    ttft_s: Summary
    tpot_s: Summary
    e2e_s: Summary
    slo_attainment: float | None
    offered_rps: float | None
    goodput_rps: float | None
    requests_per_s: float | None
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    prefix_hit_rate: float | None
    preemptions: int
    migrations: int
    retries: int
    loans: int
    loans_refused: int
    hedges: int
    hedges_won: int
    hedge_tokens: int
    cost_usd_per_mtok: float | None
    cost_usd_per_mtok_output: float | None
    energy_j_per_mtok: float | None
    energy_j_per_mtok_output: float | None
    busy_time: BusyTime
    replica_hours: float = 0.0
    blame: Means | None = None
    scaling: Scalings | None = None
    program_s: Summary | None = None
    programs: Programs | None = None
    agents: Agents | None = None
    counts: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, ready for JSON; optional fields only where the run has them."""
        data = asdict(self)
        for name in ("blame", "scaling", "program_s", "programs", "agents"):
            if data[name] is None:
                del data[name]
        if not data["counts"]:
            del data["counts"]
        return data


def met(run: Run, slo: Slo, warmup_s: float = 0.0) -> Mask:
    """Which rows arrived after warm-up and met every part of `slo`; compared as integers.

    Only a finished request can meet it; a part that is None has no limit, and an output of one token has no TPOT.
    """
    records, good = run.records, finished(run, warmup_s)
    arrived, first, ended = (
        column(instants) for instants in (records.arrived_at, records.first_token_at, records.ended_at)
    )
    if slo.ttft_s is not None:
        good &= (first >= 0) & (first - arrived <= ps(slo.ttft_s))
    if slo.tpot_s is not None:
        gaps = column(records.output_tokens).astype(np.int64) - 1
        good &= (gaps <= 0) | ((first >= 0) & (ended - first <= gaps * ps(slo.tpot_s)))
    if slo.e2e_s is not None:
        good &= ended - arrived <= ps(slo.e2e_s)
    if slo.program_s is not None:
        good &= in_time(run, slo.program_s)
    return good


def _programs(found: Spans, meeting: Mask) -> Programs:
    begun = int(found.begun.sum())
    good = int((found.begun & found.all_of(meeting)).sum())
    return Programs(begun, int(found.finished.sum()), good / begun if begun else None)


def _total(run: Run, name: str, rows: Mask) -> int:
    """The sum of one count column over the chosen rows."""
    return int(column(getattr(run.records, name))[rows].sum(dtype=np.int64))


def _hit_rate(run: Run, rows: Mask) -> float | None:
    """Cached over all prompt tokens of the chosen rows that have a first token; None without such tokens.

    A dispatched request may never be admitted, and what it found in the cache is known only once its prompt is done.
    """
    admitted = rows & (column(run.records.first_token_at) >= 0)
    prompt = _total(run, "prompt_tokens", admitted)
    return _total(run, "cached_tokens", admitted) / prompt if prompt else None


def _notes(run: Run, cluster: Cluster, slo: Slo, tallies: dict[str, int], duration_s: float) -> dict[str, str]:
    """Reasons for figures that are missing or need care."""
    notes = {}
    if run.interrupted:
        notes["interrupted"] = f"stopped by the user at {seconds(run.ended_at):.6g} s; the rest counts as unfinished"
    if not run.drained and tallies["unfinished"]:
        notes["unfinished"] = f"{tallies['unfinished']} requests were cut off by the end of the run and miss their SLO"
    if not sum(tallies.values()):
        notes["requests"] = "no request arrived after warm-up"
    elif not tallies["finished"]:
        notes["ttft_s"] = "no request finished, so there is no latency, hit or price to quote"
    if duration_s <= 0:
        notes["requests_per_s"] = "the run ended before its warm-up did, so there are no rates"
    if run.counts:
        notes["counts"] = ", ".join(f"{name.replace('_', ' ')} {value:,.6g}" for name, value in run.counts.items())
    if slo == Slo():
        notes["slo_attainment"] = "no SLO was given: every finished request meets it"
    if cost := dollars(run, cluster)[1]:
        notes["cost_usd_per_mtok"] = cost
    if energy := joules(run, cluster, Window(0, 0, run.ended_at))[1]:
        notes["energy_j_per_mtok"] = energy
    return notes


def _cost(run: Run, cluster: Cluster, work: Work, tokens: float) -> float | None:
    """Dollars per million `tokens` of the work."""
    spent, _ = dollars(run, cluster, work.window.begin, work.window.end)
    return None if spent is None or not tokens else spent / tokens * 1e6


def _energy(run: Run, cluster: Cluster, work: Work, tokens: float) -> float | None:
    """Joules per million `tokens` of the work."""
    spent, _ = joules(run, cluster, work.window)
    return None if spent is None or not tokens else spent / tokens * 1e6


def _busy_time(run: Run, window: Window) -> BusyTime:
    """Of all replicas together, and of each."""
    each = [busy_time([stats], window) for stats in run.replicas]
    return BusyTime(busy_time(run.replicas, window), each)


def measure(run: Run, cluster: Cluster, slo: Slo, *, warmup_s: float = 0.0) -> Metrics:
    """Measure one run over the requests that arrived after `warmup_s` seconds.

    Vectorised over the columns of `run.records`. Raises `UserError` for a negative warm-up.
    """
    rows = counted(run, warmup_s)
    ends = np.bincount(column(run.records.status)[rows], minlength=len(STATUS))
    tallies = {name: int(count) for name, count in zip(STATUS, ends, strict=True)}
    duration_s = max(seconds(run.ended_at - since(run, warmup_s)), 0.0)
    meeting = met(run, slo, warmup_s)
    good, found = int(meeting.sum()), spans(run, warmup_s)
    attainment = good / int(rows.sum()) if rows.any() else None
    arriving, done = offered(run, warmup_s), works(run, warmup_s)
    finishing, output, tokens = (best(done, name) for name in ("finished", "output_tokens", "tokens"))
    times = latencies(run, warmup_s)

    return Metrics(
        **tallies,
        requests=int(rows.sum()),
        warmup_s=warmup_s,
        duration_s=duration_s,
        window_s=done[0].window.seconds,
        queue_s=summary(times.queue),
        ttft_s=summary(times.ttft),
        tpot_s=summary(times.tpot),
        e2e_s=summary(times.e2e),
        slo_attainment=attainment,
        offered_rps=arriving,
        goodput_rps=None if arriving is None else arriving * (attainment or 0.0),
        requests_per_s=finishing.rate("finished"),
        output_tokens_per_s=output.rate("output_tokens"),
        total_tokens_per_s=tokens.rate("tokens"),
        prefix_hit_rate=_hit_rate(run, rows),
        preemptions=_total(run, "preemptions", rows),
        migrations=_total(run, "migrations", rows),
        retries=_total(run, "retries", rows),
        loans=run.loans,
        loans_refused=run.loans_refused,
        hedges=run.hedges,
        hedges_won=run.hedges_won,
        hedge_tokens=run.hedge_tokens,
        cost_usd_per_mtok=_cost(run, cluster, tokens, tokens.tokens),
        cost_usd_per_mtok_output=_cost(run, cluster, output, output.output_tokens),
        energy_j_per_mtok=_energy(run, cluster, tokens, tokens.tokens),
        energy_j_per_mtok_output=_energy(run, cluster, output, output.output_tokens),
        busy_time=_busy_time(run, tokens.window),
        replica_hours=replica_hours(run, since(run, warmup_s)),
        blame=means(run, warmup_s),
        scaling=scalings(run, cluster, warmup_s),
        program_s=None if found is None else summary(found.took[found.finished]),
        programs=None if found is None else _programs(found, meeting),
        agents=agents(run, cluster, warmup_s),
        counts=dict(run.counts),
        notes=_notes(run, cluster, slo, tallies, duration_s),
    )


def _no_interval(plain: Sequence[dict[str, Any]]) -> str:
    """Why these seeds give no interval; empty where they do."""
    if len(plain) < 2:
        return "one seed: an interval needs two or more"
    if all(seed == plain[0] for seed in plain):
        return "the seeds changed nothing (a recorded load and no chance), so they say nothing about chance"
    return ""


def combine(seeds: Sequence[Metrics]) -> dict[str, Any]:
    """Means over one or more seeds at the top level, with `notes`, `interval` and `per_seed`; ready for JSON.

    `interval` has the shape of the figures and holds half-widths of 95 % t-intervals; it is None where seeds cannot
    give one, and `notes["interval"]` then says why. A figure that one seed lacks is None in the mean.
    """
    return combine_plain([metrics.as_dict() for metrics in seeds])


def combine_plain(per_seed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`combine` for figures that were read from a file."""
    if not per_seed:
        raise ValueError("combine needs the metrics of at least one seed")
    plain = [{name: value for name, value in seed.items() if name != "notes"} for seed in per_seed]
    notes = {name: why for seed in reversed(per_seed) for name, why in seed["notes"].items()}
    why = _no_interval(plain)
    if why:
        notes["interval"] = why
    interval = None if why else fold(plain, half_width)
    return {**fold(plain, mean), "notes": notes, "interval": interval, "per_seed": list(per_seed)}
