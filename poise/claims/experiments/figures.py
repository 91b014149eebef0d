"""The figures of one run that formulas of claims name: those of a report, of some of its requests, and of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.report.latency import durations
from poise.report.metrics import met
from poise.report.programs import spans

if TYPE_CHECKING:
    from poise.scenario.build import Problem
    from poise.scenario.python import Result
    from poise.workload import Workload

SLICED = ("tbt_s", "prompt_step_s", "steps")
"""Figures that need the batches of a run."""

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
REPORTED = ("mean", "p50", "p90", "p95", "p99")


@dataclass(slots=True)
class Seen:
    """One run, with the requests that it served and the problem that it was of."""

    result: Result
    workload: Workload
    problem: Problem
    _report: dict[str, Any] = field(default_factory=dict, repr=False)

    def figure(self, path: str) -> float:
        """A figure by its path, as in ttft_s.p99, before.slo_attainment or span_s; 0 where the run has none.

        The first part may name some of the requests: a class of the workload, or be `before` or `after`, the halves, or
        `settled`, all but the first tenth.
        UserError for a figure that there is not.
        """
        first, _, rest = path.partition(".")
        if first in OWN:
            return OWN[first](self, rest)
        rows = self._rows(first)
        if rows is not None:
            return self._of(rows, rest)
        if first in LATENCIES and rest not in REPORTED:
            return self._of(np.ones(len(self.workload), bool), path)
        if first == "program_s" and rest not in REPORTED and (found := spans(self.result.run)):
            return _statistic(found.took[found.finished], rest) / SECOND
        value: Any = self._whole()
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                raise UserError(f"{path} is no figure of a run; give one as in ttft_s.p99, or one of {', '.join(OWN)}")
            value = value[name]
        return float(value or 0.0)

    def _whole(self) -> dict[str, Any]:
        """The figures of the report."""
        if not self._report:
            found = self.result.metrics(self.problem.slo, warmup_s=self.problem.warmup_s)
            self._report.update(found.as_dict())
        return self._report

    def _rows(self, name: str) -> NDArray[np.bool_] | None:
        """The requests that a name stands for; None where it stands for none."""
        rows = len(self.workload)
        if name == "settled":
            return np.asarray(np.arange(rows) >= rows // 10)
        if name in ("before", "after"):
            return np.asarray((np.arange(rows) >= rows // 2) == (name == "after"))
        kinds = list(self.problem.loaded.scenario.workload.classes or {})
        if name not in kinds or self.workload.tenant is None:
            return None
        each = (self.problem.loaded.scenario.workload.classes or {})[name]
        return np.asarray(self.workload.tenant == (kinds.index(name) if each.tenant is None else each.tenant))

    def _of(self, rows: NDArray[np.bool_], path: str) -> float:
        """A figure of some requests: a latency's mean or percentile (p50, p999), or the share within limits."""
        if path == "slo_attainment":
            return float(met(self.result.run, self.problem.slo)[rows].mean())
        if path == "in_time":
            return float(_punctual(self)[rows].mean())
        name, _, part = path.partition(".")
        if name not in LATENCIES:
            raise UserError(f"{path} is no figure of some of the requests; give {', '.join(LATENCIES)}, slo_attainment")
        at, took = durations(self.result.run)[name.removesuffix("_s")]
        return _statistic(took[rows[at]], part) / SECOND


def _statistic(took: NDArray[Any], part: str) -> float:
    """The mean, the nearest-rank percentile of a name as in p50 or p999, or as in q95 that between two ranks."""
    if not len(took):
        return 0.0
    if part == "mean":
        return float(took.mean())
    if part[:1] not in ("p", "q") or not part[1:].isdecimal():
        raise UserError(f"{part!r} is no part of a latency; give mean, or a percentile as in p50 or p999")
    share = float(f"0.{part[1:]}")
    if part[0] == "q":
        return float(np.quantile(took, share))
    rank = ceil(share * len(took))
    return float(np.partition(took, rank - 1)[rank - 1])


def _punctual(seen: Seen) -> NDArray[np.bool_]:
    """Which first tokens came by the deadlines of their requests."""
    records, due = seen.result.run.records, seen.workload.deadline
    if due is None:
        raise UserError("in_time needs requests with deadlines; give the workload deadline_s")
    first = np.array(records.first_token_at)
    return np.asarray((first >= 0) & (first - np.array(records.arrived_at) <= due))


def _in_time(seen: Seen, _: str) -> float:
    return float(_punctual(seen).mean())


def _span(seen: Seen, _: str) -> float:
    """Seconds until the last request has ended."""
    return max(seen.result.run.records.ended_at) / SECOND


def _made(seen: Seen, _: str) -> float:
    """Output tokens a second until the last request has ended."""
    return float(np.array(seen.result.run.records.output_tokens).sum()) / _span(seen, "")


def _decoded(seen: Seen, _: str) -> float:
    """Output tokens after the first ones, a second from the last first token on: the rate of one batch that decodes."""
    records = seen.result.run.records
    tokens = float((np.array(records.output_tokens) - 1).sum())
    return tokens / (_span(seen, "") - max(records.first_token_at) / SECOND)


def _computed(seen: Seen, _: str) -> float:
    """Prompt tokens that were computed."""
    return float(sum(each.prompt_tokens for each in seen.result.run.replicas))


def _unique(seen: Seen, _: str) -> float:
    """Prompt tokens without those of shared prefixes that came before: what must be computed once."""
    prefixes = seen.workload.prefixes
    total = float(seen.workload.prompt.sum())
    if prefixes is None:
        return total
    own = np.diff(prefixes.ends, prepend=0)
    own[prefixes.offsets[:-1][prefixes.counts > 0]] = prefixes.ends[prefixes.offsets[:-1][prefixes.counts > 0]]
    first = np.unique(prefixes.ids, return_index=True)[1]
    return total - float(own.sum()) + float(own[first].sum())


def _again(seen: Seen, _: str) -> float:
    """Prompt tokens that had been computed before, at any replica, and were not in the cache of their own."""
    cached = np.array(seen.result.run.records.cached_tokens)
    return float(np.maximum(seen.workload.reachable_tokens() - cached, 0).sum())


def _busiest(seen: Seen, _: str) -> float:
    """The share of the requests at the replica that has most of them."""
    replica = np.array(seen.result.run.records.replica)
    return float(np.bincount(replica).max() / len(replica))


def _outputs(seen: Seen, _: str) -> float:
    """Mean output tokens of a request."""
    return float(np.array(seen.result.run.records.output_tokens).mean())


def _steps(seen: Seen, _: str) -> float:
    """Batches that were run for each request."""
    return len(seen.result.run.slices) / len(seen.workload)


def _prompt_step(seen: Seen, _: str) -> float:
    """Seconds of the longest step with prompts."""
    return max(end - start for start, end, *_, tokens in seen.result.run.slices if tokens) / SECOND


def _between(seen: Seen, part: str) -> float:
    """Seconds between two tokens of a request that a part of all such times do not exceed, as in tbt_s.p99.

    A token that comes with a step of prompts waited for that step, and for those without decodes before it. Held
    decodes are one batch of many steps, of which only the first can have waited: of it the wait alone is counted, and
    of the others nothing. So a quantile that lies among them is 0.
    """
    waits: list[tuple[int, int]] = []
    ended: dict[tuple[int, int], int] = {}
    for start, end, replica, lane, decodes, tokens in seen.result.run.slices:
        if not decodes:
            continue
        since = ended.get((replica, lane), start)
        waits.append(((end if tokens else start) - since, decodes))
        ended[replica, lane] = end
    left = (1 - float(f"0.{part[1:]}")) * sum(each.decode_tokens for each in seen.result.run.replicas)
    for wait, decodes in sorted(waits, reverse=True):
        left -= decodes
        if left <= 0:
            return wait / SECOND
    return 0.0


OWN: Mapping[str, Callable[[Seen, str], float]] = {
    "in_time": _in_time, "span_s": _span, "output_rate": _made, "decode_rate": _decoded, "computed_tokens": _computed,
    "unique_tokens": _unique, "again_tokens": _again, "busiest": _busiest, "output_tokens": _outputs, "steps": _steps,
    "prompt_step_s": _prompt_step, "tbt_s": _between,
}  # fmt: skip
"""Figures that no report has, each a function of a run and of what follows its name."""
