"""Cost of a run over a window of time: dollars and joules of its devices."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.power import POWER, cap_of
from poise.core.records.records import NOT_YET, ReplicaStats, Run
from poise.core.spec import Cluster, EncoderPool, Pool
from poise.core.units import SECOND, seconds
from poise.report.rates import Window

IDLE_SHARE = 0.2
"""Power of an idle device as a share of its TDP, unless it was measured (design, section 8)."""

_HOUR_S = 3600.0


def pools_by_replica(cluster: Cluster) -> list[Pool]:
    """The pool of each replica, in the order of their ids."""
    return [pool for pool in cluster.pools for _ in range(pool.slots)]


def uptime(stats: ReplicaStats, until: int, since: int = 0) -> int:
    """Picoseconds that a replica had its devices between the instants `since` and `until`, its start-up included."""
    if stats.up_from < 0:
        return 0
    times = [*stats.before, (stats.up_from, until if stats.up_until == NOT_YET else stats.up_until)]
    return sum(max(min(end, until) - max(begin, since), 0) for begin, end in times)


def busy_time(replicas: Sequence[ReplicaStats], window: Window) -> float | None:
    """Share of the time up with a step under way, over all of `replicas`; None if none was up.

    From the first arrival to the end of the window, warm-up included. It is not a measure of headroom: one request that
    decodes alone keeps a replica busy all the time.
    """
    up = sum(uptime(stats, window.end, window.first) for stats in replicas)
    busy = sum(stats.arriving if window.early else stats.busy for stats in replicas)
    return busy / up if up else None


def price(pool: Pool | EncoderPool) -> float | None:
    """Dollars per device-hour: the pool's own price, else its device's; None where neither is known."""
    if pool.price_per_hour is not None:
        return pool.price_per_hour
    return pool.device.price_per_hour or None


def _priceless(cluster: Cluster) -> str:
    """Why this cluster has no price; empty where it has one."""
    apart: list[Pool | EncoderPool] = [] if cluster.encoders is None else [cluster.encoders]
    for pool in [*cluster.pools, *apart]:
        if price(pool) is None:
            return f"no price is known for {pool.device.name}; give the pool a price_per_hour"
    bases = {pool.device.price_basis for pool in cluster.pools if pool.price_per_hour is None}
    if len(bases) > 1:
        named = ", ".join(repr(basis) for basis in sorted(bases))
        return f"prices of different bases ({named}) are not added up; give each pool a price_per_hour"
    return ""


def dollars(run: Run, cluster: Cluster, since: int = 0, until: int | None = None) -> tuple[float | None, str]:
    """Dollars for all devices that were up between two instants (default: of the run); or None and the reason."""
    until = run.ended_at if until is None else until
    why = _priceless(cluster)
    if why:
        return None, why
    total = 0.0
    for stats, pool in zip(run.replicas, pools_by_replica(cluster), strict=True):
        hours = seconds(uptime(stats, until, since)) / _HOUR_S
        total += hours * pool.devices * (price(pool) or 0.0)
    if cluster.encoders is not None:
        hours = seconds(until - since) / _HOUR_S
        total += hours * cluster.encoders.replicas * (price(cluster.encoders) or 0.0)
    return total, ""


def load(stats: ReplicaStats, pool: Pool, window: Window) -> float:
    """Mean power of a replica's devices as a part of their TDP: idle + (1 − idle) × busy time (design, section 8).

    Where a cap is stated, be it the TDP, steps with prompt work draw up to it, and those without no more than decoding
    does (`poise.core.power`): so a cap that decodes do not reach saves nothing while they run.
    """
    use = busy_time([stats], window) or 0.0
    if pool.power_cap_w:
        prompts = min(1.0, stats.prompting / stats.busy) if stats.busy else 0.0
        return POWER.mean(cap_of(pool), use, prompts)
    return IDLE_SHARE + (1 - IDLE_SHARE) * use


def joules(run: Run, cluster: Cluster, window: Window) -> tuple[float | None, str]:
    """Joules of all devices that were up in a window of a run; or None and the reason.

    See `load` for what a device draws, over the whole time that its replica was up. Hosts, switches and cooling are
    not in it.
    """
    if cluster.encoders is not None:
        return None, "what encoders apart from the pools draw is not known"
    total = 0.0
    for stats, pool in zip(run.replicas, pools_by_replica(cluster), strict=True):
        if not pool.device.tdp_w:
            return None, f"no TDP is known for {pool.device.name}; give the device its tdp_w"
        power = load(stats, pool, window)
        total += uptime(stats, window.end, window.begin) / SECOND * pool.devices * pool.device.tdp_w * power
    return total, ""
