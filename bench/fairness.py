"""Print what a flood of one tenant does to the others: TTFT of both, prefix hits, and how long the others were held.

Five tenants converse with two replicas; after ten seconds tenant 0 begins conversations at forty times the rate of each
of the others, for half a minute. Every row has the same requests, the same router and the same ceiling on each replica,
but the first, which has neither order nor ceiling. The functions here take the workload and the policies apart, so that
a gateway can be given the same.

    python bench/fairness.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.core.policy import Order, Predictor
from poise.core.records.records import FINISHED, Run
from poise.core.units import SECOND
from poise.policies.admit.ceiling import Ceiling
from poise.policies.order.deficit_longest_prefix import DeficitLongestPrefix
from poise.policies.order.fcfs import Fcfs
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.predict.history import History
from poise.policies.predict.oracle import Oracle
from poise.policies.route.prefix_cache import PrefixCache

QUIET, REPLICAS, CEILING = 4, 2, 64
FLOODER = 0
RATE, FLOOD_RATE, BEGIN_S, FLOOD_S, UNTIL_S = 0.4, 16.0, 10, 30, 60


def workload(seed: int = 0) -> ps.workload.Workload:
    """Conversations of five turns: quiet tenants 1 to 4 all the time, tenant 0 in a flood from `BEGIN_S` on."""
    lengths = {"prompt_tokens": ps.workload.uniform(500, 2500), "output_tokens": ps.workload.uniform(20, 280)}
    quiet = ps.workload.poisson(RATE * QUIET, duration_s=UNTIL_S, **lengths, seed=seed)
    flood = ps.workload.poisson(FLOOD_RATE, duration_s=FLOOD_S, **lengths, seed=seed + 1)
    arrival = np.concatenate([quiet.arrival, flood.arrival + BEGIN_S * SECOND])
    tenant = np.concatenate([1 + np.arange(len(quiet)) % QUIET, np.full(len(flood), FLOODER)])
    order = np.argsort(arrival, kind="stable")
    starts = ps.workload.Workload(
        arrival=arrival[order],
        prompt=np.concatenate([quiet.prompt, flood.prompt])[order],
        output=np.concatenate([quiet.output, flood.output])[order],
        tenant=tenant[order].astype(np.int32),
    )
    return ps.workload.sessions(starts, turns=5, think_s=2.0, user_tokens=200, seed=seed)


def policies(order: Order | None, predictor: Predictor | None = None, ceiling: int = CEILING) -> ps.Policies:
    """Affinity for prefixes, and an order behind a ceiling; without a ceiling nothing is ever held."""
    admission = (Ceiling(ceiling),) if ceiling else ()
    return ps.Policies(router=PrefixCache(), order=order, admission=admission, predictor=predictor)


CASES = {
    "affinity only": policies(None, ceiling=0),
    "fcfs": policies(Fcfs()),
    "vtc": policies(VirtualTokenCounter()),
    "vtc, history": policies(VirtualTokenCounter(), History()),
    "vtc, oracle": policies(VirtualTokenCounter(), Oracle()),
    "dlpm": policies(DeficitLongestPrefix()),
    "dlpm, history": policies(DeficitLongestPrefix(), History()),
    "dlpm, oracle": policies(DeficitLongestPrefix(), Oracle()),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of a flood. Seconds: TTFT of the flooder and of the others, and the longest that a request of the
    others was held that found none of its own tenant held. hits: share of all prompt tokens found in a cache."""

    flooder_p50: float
    flooder_p99: float
    others_p50: float
    others_p99: float
    held_s: float
    hits: float
    finished: bool


def figures(run: Run, load: ps.workload.Workload) -> Figures:
    """The figures of requests that arrived while the flood was on."""
    records = run.records
    arrived, sent, first = (
        np.array(each) for each in (records.arrived_at, records.dispatched_at, records.first_token_at)
    )
    assert load.tenant is not None
    flooded = (arrived >= BEGIN_S * SECOND) & (arrived < (BEGIN_S + FLOOD_S) * SECOND)
    ttft = (first - arrived) / SECOND
    flooder, others = flooded & (load.tenant == FLOODER), flooded & (load.tenant != FLOODER)
    alone = others & _found_none(load.tenant, arrived, sent)
    return Figures(
        *(float(np.percentile(ttft[who], share)) for who in (flooder, others) for share in (50, 99)),
        held_s=float(((sent - arrived) / SECOND)[alone].max()),
        hits=sum(records.cached_tokens) / sum(records.prompt_tokens),
        finished={*records.status} == {FINISHED},
    )


def _found_none(tenant: NDArray[np.int32], arrived: NDArray[np.int64], sent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether no other request of its tenant was held when each request arrived."""
    found = np.ones(len(tenant), dtype=bool)
    for each in np.unique(tenant):
        rows = np.flatnonzero(tenant == each)
        rows = rows[np.argsort(arrived[rows], kind="stable")]
        last = np.maximum.accumulate(sent[rows])
        found[rows[1:]] = last[:-1] <= arrived[rows[1:]]
    return found


def bound(run: Run, load: ps.workload.Workload, name: str) -> float:
    """Seconds that a request which finds none of its tenant held may be held at most, by the order of that name.

    While it is, each other tenant is sent at most 2·U of weighted service: U = w_p·L + w_q·(P + K·E) for VTC, and for
    DLPM quantum + w_e·L + w_q·(P + 2·K·E). L and P are the longest prompt and output of the workload, E is P without an
    oracle. So the bound is the longest that it took to send that much to the others while anybody was held.
    """
    order, _, predictor = name.partition(", ")
    longest, most, at_once = int(load.prompt.max()), int(load.output.max()), REPLICAS * CEILING
    predicted, error = (most if predictor else 0), (0 if predictor == "oracle" else most)
    if order == "dlpm":
        unit = DeficitLongestPrefix().quantum + longest + 2 * (predicted + 2 * at_once * error)
    else:
        unit = longest + 2 * (predicted + at_once * error)
    return _longest(run, load, 2 * QUIET * unit)


def _longest(run: Run, load: ps.workload.Workload, service: float) -> float:
    """The longest time, in seconds, in which no more than `service` was sent while somebody was held throughout."""
    arrived, sent = np.array(run.records.arrived_at), np.array(run.records.dispatched_at)
    rows = np.argsort(sent, kind="stable")
    total = np.cumsum((load.prompt + 2 * load.output)[rows])
    longest = 0
    for begin, end in _spans(arrived, sent):
        first, last = np.searchsorted(sent[rows], [begin, end])
        instants = np.concatenate([[begin], sent[rows[first:last]]])
        before = np.concatenate([[total[first - 1] if first else 0], total[first:last]])
        over = np.minimum(np.searchsorted(total, before + service, side="right"), last)
        longest = max(longest, int((sent[rows[np.minimum(over, len(rows) - 1)]].clip(max=end) - instants).max()))
    return longest / SECOND


def _spans(arrived: NDArray[np.int64], sent: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The times in which somebody is held, joined where they touch."""
    spans: list[tuple[int, int]] = []
    for row in np.argsort(arrived, kind="stable"):
        begin, end = int(arrived[row]), int(sent[row])
        if begin == end:
            continue
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def simulated(each: ps.Policies, load: ps.workload.Workload) -> Run:
    """One run on two H100 with Llama-3.1-8B."""
    cluster = ps.Cluster.of("H100", count=REPLICAS).replicas(REPLICAS, model="llama-3.1-8b")
    return ps.simulate(cluster, load, each).run


def main() -> None:
    """Print the table."""
    load = workload()
    requests = np.bincount(load.tenant)  # type: ignore[arg-type]
    print(f"{len(load)} requests, {requests[FLOODER]} of them the flooder's; {REPLICAS} x H100, Llama-3.1-8B")
    print(f"{'':22}{'TTFT of flooder':>18}{'TTFT of others':>18}{'others held':>13}{'bound':>8}{'hits':>8}")
    print(f"{'':22}{'p50, p99 s':>18}{'p50, p99 s':>18}{'longest s':>13}{'s':>8}")
    for name, each in CASES.items():
        run = simulated(each, load)
        results = figures(run, load)
        limit = f"{bound(run, load, name):.2f}" if name.startswith(("vtc", "dlpm")) else "-"
        print(
            f"{name:22}{results.flooder_p50:10.2f}{results.flooder_p99:8.2f}{results.others_p50:10.2f}{results.others_p99:8.2f}"
            f"{results.held_s:13.2f}{limit:>8}{100 * results.hits:7.1f}%"
        )


if __name__ == "__main__":
    main()
