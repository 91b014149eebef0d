"""Rules that involve several fields of a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from poise.core.errors import UserError
from poise.core.spec import MOST_REPLICAS
from poise.policies.find import find
from poise.report.figures import ATTAINMENT, E2E, GOODPUT, Figure, deciding
from poise.scenario.hazards import TIMED
from poise.scenario.place import Path, Places
from poise.scenario.policy_spec import choices
from poise.scenario.schema import EngineSection, FaultRateSection, FaultSection, PoolSection, Scenario, SloSection
from poise.scenario.schema_workload import (
    LANES_ONLY,
    SOURCES,
    TRACE_ONLY,
    DiurnalSection,
    Generated,
    ServegenSection,
    WorkloadSection,
)


def check(scenario: Scenario, places: Places) -> None:
    """Raise ScenarioError at the first rule that is broken."""
    _workload(scenario.workload, places)
    _engine(scenario.engine, ("engine",), places)
    for at, pool in enumerate(scenario.cluster.pools):
        _pool(scenario, pool, ("cluster", "pools", at), places)
    _size(scenario, places)
    _roles(scenario, places)
    _faults(scenario, places)
    _scaling(scenario, places)
    _preemption(scenario, places)
    if scenario.belief.share_s is not None and scenario.belief.gateways == 1:
        text = "is between gateways, and there is one; give belief.gateways, as in 4, or remove it"
        raise places.error(("belief", "share_s"), text)
    _run(scenario, places)
    _compare(scenario, places)


def source_of(workload: WorkloadSection) -> str:
    """The sources that a workload has; the first where there are several, empty where there is none."""
    return next((name for name in SOURCES if getattr(workload, name) is not None), "")


def _workload(workload: WorkloadSection, places: Places) -> None:
    given = [name for name in SOURCES if getattr(workload, name) is not None]
    if len(given) != 1:
        text = "names no source" if not given else f"names {' and '.join(given)}"
        raise places.error(("workload",), f"{text}; give exactly one of {', '.join(SOURCES)}")
    source = given[0]
    if source != "trace":
        _trace_only(workload, source, places)
    if source not in ("trace", "phases"):
        _generated(getattr(workload, source), ("workload", source), places)
    _lanes(workload, places)
    for name in ("recorded_sessions", "workflows"):
        if getattr(workload, name) is not None:
            _programs(workload, name, source, places)
    if workload.classes is not None:
        _classes(workload, source, places)
    if workload.sessions is not None and workload.sessions.hung and workload.sessions.tool is None:
        raise places.error(("workload", "sessions", "hung"), "needs a tool that hangs; give tool, as in search")


def _classes(workload: WorkloadSection, source: str, places: Places) -> None:
    """Classes draw lengths of their own, so the requests must not come with theirs."""
    made = getattr(workload, source)
    if not isinstance(made, Generated):
        text = f"draws requests anew, and the source is {source}, which has its own; take poisson, say"
        raise places.error(("workload", "classes"), text)
    for name in ("recorded_sessions", "workflows"):
        if getattr(workload, name) is not None:
            raise places.error(("workload", "classes"), f"conflicts with {name}; give one or the other")
    if not workload.classes:
        raise places.error(("workload", "classes"), "names no class; give one or more, as in {chat: {share: 0.7}}")


def _lanes(workload: WorkloadSection, places: Places) -> None:
    """Lanes set the load by themselves, and what they have, only they have."""
    if workload.lanes is None:
        for name in (name for name in (*LANES_ONLY, "max_context") if name in workload.model_fields_set):
            if getattr(workload, name) != type(workload).model_fields[name].default:
                text = "belongs to conversations in lanes, and there are none; give lanes, as in 16, or remove it"
                raise places.error(("workload", name), text)
        return
    for name in ("scale", "squeeze", "open_loop", "sessions", "shared_prefixes"):
        if getattr(workload, name) != type(workload).model_fields[name].default:
            raise places.error(("workload", name), "conflicts with lanes, which set the load; change their number")
    low, high = (*workload.start, 0.0, 0.0)[:2]
    if len(workload.start) != 2 or not 0 <= low <= high <= 1:
        text = f"{workload.start} must be two shares from 0 to 1, the smaller one first; give [0.25, 0.75]"
        raise places.error(("workload", "start"), text)


def _trace_only(workload: WorkloadSection, source: str, places: Places) -> None:
    made = getattr(workload, source)
    files = [workload.recorded_sessions, *(getattr(made, name, None) for name in ("lengths", "counts", "arrivals"))]
    allowed = {"skip_bad"} if any(file is not None for file in files) else set()
    allowed |= {"ignore_model"} if workload.recorded_sessions is not None else set()
    for name in (name for name in TRACE_ONLY if name in workload.model_fields_set and name not in allowed):
        if getattr(workload, name) != type(workload).model_fields[name].default:
            cure = "change its rate instead" if name == "scale" else "remove it"
            raise places.error(("workload", name), f"belongs to a trace, and the source is {source}; {cure}")


def _generated(source: Generated | ServegenSection, path: Path, places: Places) -> None:
    lengths = (source.prompt_tokens, source.output_tokens) if isinstance(source, Generated) else ()
    if source.lengths is not None and any(each is not None for each in lengths):
        raise places.error((*path, "lengths"), "conflicts with prompt_tokens or output_tokens; give one or the other")
    ends = isinstance(source, DiurnalSection) and not source.repeat
    if not ends and getattr(source, "requests", 1) is None and getattr(source, "duration_s", None) is None:
        raise places.error(path, "has neither requests nor duration_s; give one, to say where the arrivals stop")
    if isinstance(source, DiurnalSection):
        _diurnal(source, path, places)


def _diurnal(source: DiurnalSection, path: Path, places: Places) -> None:
    if (source.points is None) == (source.counts is None):
        text = "has neither points nor counts" if source.points is None else "has both points and counts"
        raise places.error(path, f"{text}; give one, to say how the rate changes")
    for name in ("begin_s", "lasting_s"):
        if source.points is not None and name in source.model_fields_set:
            raise places.error((*path, name), "belongs to counts, and the profile is given by points; remove it")


def _programs(workload: WorkloadSection, kind: str, source: str, places: Places) -> None:
    """Sessions, which replace each arrival, need open arrivals alone."""
    path = ("workload", kind)
    for name in ("sessions", "shared_prefixes", "recorded_sessions"):
        if name != kind and getattr(workload, name) is not None:
            raise places.error(path, f"conflicts with {name}; give one or the other")
    made = getattr(workload, source)
    if not isinstance(made, Generated) or source == "closed":
        raise places.error(path, f"needs open arrivals of its own, and the source is {source}; take poisson, say")
    for name in Generated.model_fields:
        if getattr(made, name) is not None:
            raise places.error(("workload", source, name), f"{kind} have their own lengths; remove it")


def _engine(engine: EngineSection, path: Path, places: Places) -> None:
    """vLLM's own rule on its two limits, and lanes that can do the work."""
    if engine.token_budget < engine.max_sequences:
        known = [each for each in (*places.overrides, *places.lines) if each[:-1] == path]
        at = next((each[-1] for each in known if each[-1] in ("token_budget", "max_sequences")), "token_budget")
        raise places.error(
            (*path, at),
            f"token_budget {engine.token_budget} must be at least max_sequences {engine.max_sequences}, for each "
            "running request takes one token of a step; raise token_budget or lower max_sequences",
        )
    if not any(lane.prefill for lane in engine.lanes) or not any(lane.decode for lane in engine.lanes):
        raise places.error(
            (*path, "lanes"), "no lane computes prompts, or none outputs; give one with prefill and one with decode"
        )
    load = engine.expert_load
    if not isinstance(load, str) and (load.zipf is None) == (load.file is None):
        rule = "states no load" if load.zipf is None else "states two loads"
        raise places.error((*path, "expert_load"), f"{rule}; give zipf or file, or the word balanced")


def _pool(scenario: Scenario, pool: PoolSection, path: Path, places: Places) -> None:
    if pool.model is None and scenario.model is None:
        raise places.error(
            (*path, "model"), "is missing; give the pool a model, or all of them one by `model:` at the top"
        )
    if "preemption" in pool.engine.model_fields_set and pool.engine.preemption != scenario.engine.preemption:
        raise places.error((*path, "engine", "preemption"), "is the same for all pools; set it in the section engine")
    if pool.price is not None and pool.price_basis is not None:
        raise places.error((*path, "price_basis"), "conflicts with price; give one or the other")
    _engine(engine_of(scenario, pool), (*path, "engine"), places)


def _size(scenario: Scenario, places: Places) -> None:
    """No more replicas than a cluster may have, over all pools."""
    total = 0
    for at, pool in enumerate(scenario.cluster.pools):
        field = "max_replicas" if (pool.max_replicas or 0) > pool.replicas else "replicas"
        total += max(pool.replicas, pool.max_replicas or 0)
        if total > MOST_REPLICAS:
            raise places.error(
                ("cluster", "pools", at, field),
                f"{total:,} replicas with the pools before it are more than the {MOST_REPLICAS:,} that a cluster may "
                "have; give fewer",
            )


def engine_of(scenario: Scenario, pool: PoolSection) -> EngineSection:
    """The engine of a pool: the section `engine`, changed by what the pool sets itself."""
    changed = {name: getattr(pool.engine, name) for name in pool.engine.model_fields_set}
    return scenario.engine.model_copy(update=changed)


def _roles(scenario: Scenario, places: Places) -> None:
    """A prefill pool needs a decode pool for the same model and tenants, and the other way round."""
    pools = scenario.cluster.pools
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        partners = {served for pool in pools if pool.role == other for served in _served(scenario, pool)}
        for at, pool in enumerate(pools):
            alone = [served for served in _served(scenario, pool) if served not in partners]
            if pool.role == role and alone:
                model, tenant = alone[0]
                whose = "" if tenant is None else f" and tenant {tenant}"
                raise places.error(
                    ("cluster", "pools", at, "role"),
                    f"{role} needs a pool with role {other} for {model}{whose}; add one, or make this one mixed",
                )


def _served(scenario: Scenario, pool: PoolSection) -> list[tuple[str | None, int | None]]:
    """The model and each tenant that a pool serves; None for those without a pool of their own."""
    model = pool.model or scenario.model
    return [(model, tenant) for tenant in pool.tenants] or [(model, None)]


def _faults(scenario: Scenario, places: Places) -> None:
    replicas = sum(map(_slots, scenario.cluster.pools))
    for at, fault in enumerate(scenario.cluster.faults):
        path = ("cluster", "faults", at)
        if fault.replica >= replicas:
            raise places.error(
                (*path, "replica"),
                f"{fault.replica} does not exist; the cluster has {replicas}; give 0 to {replicas - 1}",
            )
        _fault(fault, path, places)
        _devices(scenario, fault, [fault.replica], path, places)
    for at, rate in enumerate(scenario.cluster.fault_rates):
        path = ("cluster", "fault_rates", at)
        _fault(rate, path, places)
        for place, replica in enumerate(rate.replicas):
            if not 0 <= replica < replicas:
                text = f"{replica} does not exist; the cluster has {replicas}; give 0 to {replicas - 1}"
                raise places.error((*path, "replicas", place), text)
        _devices(scenario, rate, rate.replicas or range(replicas), path, places)
        if rate.back_s and rate.kind not in ("lost", "reclaimed"):
            raise places.error((*path, "back_s"), f"belongs to a replica that goes, and this is {rate.kind}; remove it")
        if rate.back_s and choices(scenario.policies.scaler) != [None]:
            text = "a scaler decides who starts in the place of one that is gone; remove it"
            raise places.error((*path, "back_s"), text)
        if not rate.for_s and rate.kind in TIMED:
            raise places.error((*path, "for_s"), f"of a {rate.kind} that comes again is 0; give the seconds it lasts")


def _fault(fault: FaultSection | FaultRateSection, path: Path, places: Places) -> None:
    """Fields that belong to other kinds of faults, and required fields of a kind."""
    kind = fault.kind
    if fault.notice_s and kind != "reclaimed":
        raise places.error((*path, "notice_s"), f"belongs to kind reclaimed, and this is {kind}; remove it")
    if fault.for_s and kind not in TIMED:
        raise places.error((*path, "for_s"), f"belongs to {', '.join(TIMED)}, and this is {kind}; remove it")
    if fault.factor != 1 and kind not in ("slow", "link_slow", "join"):
        raise places.error((*path, "factor"), f"belongs to slow, link_slow or join, and this is {kind}; remove it")
    if fault.factor <= 1 and kind in ("slow", "link_slow"):
        raise places.error((*path, "factor"), f"{fault.factor:g} must be above 1; give how many times as long it takes")
    if fault.devices != 1 and kind != "device_lost":
        raise places.error((*path, "devices"), f"belongs to kind device_lost, and this is {kind}; remove it")
    if kind == "link_lost" and not fault.for_s:
        raise places.error((*path, "for_s"), "0 would never end, and what is on the link waits; give the seconds")


def _devices(
    scenario: Scenario, fault: FaultSection | FaultRateSection, replicas: Iterable[int], path: Path, places: Places
) -> None:
    """No more devices of a replica are lost at once than it has."""
    pools = scenario.cluster.pools
    have = [pool.tensor * pool.pipeline * pool.data for pool in pools for _ in range(_slots(pool))]
    for replica in replicas:
        if fault.devices > have[replica]:
            text = f"{fault.devices} are more than the {have[replica]} of replica {replica}; give 1 to {have[replica]}"
            raise places.error((*path, "devices"), text)


def _slots(pool: PoolSection) -> int:
    return max(pool.replicas, pool.max_replicas or 0)


def _scaling(scenario: Scenario, places: Places) -> None:
    """Bounds that hold the start, and a scaler that has a decision and enough knowledge for it."""
    for at, pool in enumerate(scenario.cluster.pools):
        _bounds(pool, ("cluster", "pools", at), places)
    if choices(scenario.policies.scaler) == [None]:
        if choices(scenario.policies.forecast) != [None]:
            raise places.error(("policies", "forecast"), "no scaler uses it; name a scaler, or remove it")
        _check_unscaled(scenario, places)
        return
    path = ("policies", "scaler")
    names = [each[0] for each in choices(scenario.policies.scaler) if each is not None]
    fixed = all(_fewest(pool) == (pool.max_replicas or pool.replicas) for pool in scenario.cluster.pools)
    if fixed and not all(map(_converts, names)):
        raise places.error(path, "no pool may change its size; give one max_replicas, as in 8")
    if scenario.belief.gateways > 1:
        text = f"{scenario.belief.gateways} know their own requests alone, and a scaler must know all; give 1"
        raise places.error(("belief", "gateways"), text)
    for at, fault in enumerate(scenario.cluster.faults):
        if fault.kind == "join":
            text = "join cannot be where a scaler decides who is there; remove the fault"
            raise places.error(("cluster", "faults", at, "kind"), text)


def _check_unscaled(scenario: Scenario, places: Places) -> None:
    for at, pool in enumerate(scenario.cluster.pools):
        for name in ("min_replicas", "max_replicas", "prewarmed"):
            if getattr(pool, name):
                text = "no scaler changes the number; name a policies.scaler, as in apa, or remove it"
                raise places.error(("cluster", "pools", at, name), text)


def _converts(name: str) -> bool:
    """Whether a scaler changes roles; an unknown scaler is reported when it is built."""
    try:
        return bool(getattr(find("scaler", name), "converts", ()))
    except UserError:
        return False


def _fewest(pool: PoolSection) -> int:
    """The fewest instances that a scaler may leave."""
    if pool.min_replicas is None:
        return pool.replicas if pool.max_replicas is None else 1
    return pool.min_replicas


def _bounds(pool: PoolSection, path: Path, places: Places) -> None:
    if pool.max_replicas is not None and pool.max_replicas < pool.replicas:
        raise places.error(
            (*path, "max_replicas"), f"{pool.max_replicas} must be at least replicas {pool.replicas}; raise it"
        )
    if pool.min_replicas is not None and pool.min_replicas > pool.replicas:
        raise places.error(
            (*path, "min_replicas"), f"{pool.min_replicas} must be at most replicas {pool.replicas}; lower it"
        )
    startup = pool.startup
    if startup is None:
        return
    if "start_s" in pool.model_fields_set and pool.start_s:
        raise places.error((*path, "startup"), "conflicts with start_s; give one or the other")
    if startup.weights_s is not None and startup.weights_from is not None:
        raise places.error((*path, "startup", "weights_from"), "conflicts with weights_s; give one or the other")
    if startup.weights_gb_s is not None and startup.weights_from is None:
        raise places.error((*path, "startup", "weights_gb_s"), "needs weights_from, as in disk; give it")
    if startup.weights_from in ("remote", "disk") and startup.weights_gb_s is None:
        raise places.error(
            (*path, "startup", "weights_from"), f"{startup.weights_from} has no rate of its own; give weights_gb_s"
        )


def _preemption(scenario: Scenario, places: Places) -> None:
    if scenario.engine.preemption != "swap":
        return
    path = ("engine", "preemption")
    if scenario.policies.preempt is not None:
        raise places.error(path, "swap conflicts with policies.preempt; give one or the other")
    if not any(engine_of(scenario, pool).host_kv_gb for pool in scenario.cluster.pools):
        raise places.error(path, "swap has no host memory to go to; give engine.host_kv_gb, as in 4")


def _run(scenario: Scenario, places: Places) -> None:
    run = scenario.run
    if scenario.workload.lanes is not None and run.until_s is not None:
        text = "conflicts with workload.lanes, whose end is workload.duration_s; remove it"
        raise places.error(("run", "until_s"), text)
    if run.until_s is None and not run.drain:
        raise places.error(("run", "drain"), "false needs an end to stop at; give run.until_s")
    if run.until_s is not None and run.warmup_s >= run.until_s:
        raise places.error(
            ("run", "warmup_s"),
            f"{run.warmup_s:g} must be below until_s {run.until_s:g}; shorten it, or no request counts",
        )


def _compare(scenario: Scenario, places: Places) -> None:
    loads, by = scenario.compare.loads, scenario.compare.by
    if len(set(loads)) < len(loads):
        raise places.error(("compare", "loads"), f"{loads} names a load twice; give each load once")
    if by is None:
        return
    try:
        deciding(by)
    except UserError as error:
        raise places.error(("compare", "by"), str(error)) from None
    if by in (ATTAINMENT.name, GOODPUT.name) and scenario.slo == SloSection():
        raise places.error(
            ("compare", "by"), f"{by} needs an SLO to meet; give the section slo, or compare by another figure"
        )


def decides_by(scenario: Scenario) -> Figure:
    """The figure that decides a comparison: the one given, else SLO attainment where there is an SLO to meet."""
    if scenario.compare.by is not None:
        return deciding(scenario.compare.by)
    return E2E[0] if scenario.slo == SloSection() else ATTAINMENT
