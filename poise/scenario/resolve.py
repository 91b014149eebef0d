"""The resolved scenario: every default written out, so that it can be run again, and its provenance."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from poise.core.compiled import CORE
from poise.core.model import Model
from poise.core.slot import SCENARIO
from poise.core.version import version
from poise.cost import kv_blocks
from poise.cost.term import Termed
from poise.scenario import place, terms
from poise.scenario.build import Problem
from poise.scenario.checks import decides_by, engine_of, source_of
from poise.scenario.load import Loaded
from poise.scenario.policy import resolved_choice
from poise.scenario.policy_spec import choices, chosen_in
from poise.scenario.schema import BareCost, EngineCostSection, FittedSection, MeasuredSection, PoolSection, TermsSection
from poise.scenario.schema_workload import LANES_ONLY, SOURCES, TRACE_ONLY, Generated
from poise.workload import Workload
from poise.workload.generate import OUTPUT_TOKENS, PROMPT_TOKENS


def resolved(problem: Problem) -> dict[str, Any]:
    """The scenario as plain data that `load` reads back to the same problem; paths are absolute."""
    scenario = problem.loaded.scenario
    data: dict[str, Any] = {
        "model": scenario.model,
        "cluster": scenario.cluster.model_dump(),
        "workload": resolved_workload(problem.loaded),
        "policies": _policies(problem),
        "engine": scenario.engine.model_dump(),
        "slo": scenario.slo.model_dump(),
        "belief": scenario.belief.model_dump(),
        "run": {**scenario.run.model_dump(), "seeds": list(problem.seeds)},
        "compare": {**scenario.compare.model_dump(), "by": decides_by(scenario).name},
        "cost": _cost(problem),
    }
    data["cluster"]["link_latency_s"] = problem.cluster.link_latency_s
    data["cluster"]["pools"] = [_pool(problem, at, pool) for at, pool in enumerate(scenario.cluster.pools)]
    if scenario.model is not None:
        data["model"] = _model(problem, scenario.model, ("model",))
    return data


def _cost(problem: Problem) -> dict[str, Any]:
    section, cost = problem.loaded.scenario.cost, problem.cost
    if not isinstance(section, TermsSection):
        return _bare_cost(problem, section, cost, ("cost",))
    assert isinstance(cost, Termed)
    return {
        "terms": [terms.resolved(each) for each in choices(section.terms) if each],
        "of": _bare_cost(problem, section.of, cost.cost, ("cost", "of")),
    }


def _bare_cost(problem: Problem, section: BareCost, cost: Any, path: place.Path) -> dict[str, Any]:
    if isinstance(section, FittedSection):
        return {"fitted": str(problem.loaded.file(section.fitted, (*path, "fitted")).resolve())}
    if isinstance(section, EngineCostSection):
        return {**section.model_dump(), "tables": str(Path(cost.tables).resolve()) if cost.tables else None}
    use = {each.name: getattr(cost, each.name) for each in fields(cost)}
    if isinstance(section, MeasuredSection):
        return {
            "measured": {name: value for name, value in use.items() if name != "tables"},
            "tables": use["tables"] or None,
        }
    return use


def _pool(problem: Problem, at: int, section: PoolSection) -> dict[str, Any]:
    built, scenario = problem.cluster.pools[at], problem.loaded.scenario
    data = section.model_dump()
    path = ("cluster", "pools", at, "model") if section.model is not None else ("model",)
    data["model"] = _model(problem, section.model or scenario.model or "", path)
    if isinstance(section.device, str):
        data["device"] = built.device.name
        if section.price is None and built.device.price_basis:
            data["price_basis"] = built.device.price_basis
    data["engine"] = engine_of(scenario, section).model_dump()
    return data


def _model(problem: Problem, text: str, path: tuple[str | int, ...]) -> str:
    """A built-in model by its full name, another one by the absolute path of its `config.json`."""
    file = problem.loaded.file(text, path)
    made = {pool.model.source: pool.model for pool in problem.cluster.pools}
    if str(file) in made:
        return str(file.resolve())
    from poise.catalogue import model

    return model(text).name


def resolved_workload(loaded: Loaded) -> dict[str, Any]:
    """The section without the sources and options that are not used; paths are absolute."""
    section = loaded.scenario.workload
    source = source_of(section)
    without = () if section.lanes is not None else LANES_ONLY
    data = {name: value for name, value in section.model_dump().items() if value is not None and name not in without}
    if not section.open_loop:
        del data["open_loop"]
    _absolute(loaded, data, "recorded_sessions", "trace")
    if source == "trace":
        _absolute(loaded, data, "trace")
        return data
    unused = {name for name in (*SOURCES, *TRACE_ONLY) if data.get(name) is not True}
    used = {name: value for name, value in data.items() if name not in unused}
    if source == "phases":
        return used | {source: [_with_lengths(_given(each)) for each in data[source]]}
    for name in ("lengths", "counts", "arrivals"):
        _absolute(loaded, data, source, name)
    inner = _given(data[source])
    if isinstance(getattr(section, source), Generated) and "lengths" not in inner and not _OWN & data.keys():
        inner = _with_lengths(inner)
    if "points" in inner:
        inner.pop("begin_s")  # belongs to counts
    return used | {source: inner}


def _given(section: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value is not None}


def _with_lengths(section: dict[str, Any]) -> dict[str, Any]:
    """With the generators' own lengths where it has none."""
    return {"prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS} | section


_OWN = {"recorded_sessions", "workflows"}
"""The part with lengths of its own."""


def _absolute(loaded: Loaded, data: dict[str, Any], *path: str) -> None:
    """Make the file named at `path` of the section absolute, where there is one."""
    inside: Any = data
    for name in path[:-1]:
        inside = inside.get(name) or {}
    if inside.get(path[-1]) is not None:
        inside[path[-1]] = str(loaded.file(inside[path[-1]], ("workload", *path)).resolve())


def _policies(problem: Problem) -> dict[str, Any]:
    """Every slot with the parameters of its policy, or of all of its list."""
    section = problem.loaded.scenario.policies
    data: dict[str, Any] = {}
    for slot in SCENARIO:
        value = getattr(section, slot)
        if value is None and slot in _DEFAULTS and problem.loaded.scenario.engine.preemption != "swap":
            value = _DEFAULTS[slot]
        chosen = [None if each is None else resolved_choice(slot, each) for each in chosen_in(slot, value)]
        data[slot] = chosen if isinstance(value, list) else chosen[0]
    return data


_DEFAULTS = {"preempt": "last_admitted"}
"""The default policies of slots that are null."""


def provenance(problem: Problem, workload: Workload) -> dict[str, Any]:
    """The provenance of the figures: versions, the resolved scenario, engine, cost data, workload, belief and seeds."""

    engine = problem.cluster.pools[0].engine
    return {
        "poise": version(),
        "core": CORE,
        "scenario": resolved(problem),
        "engine": {"model": engine.name, "version": engine.version},
        "cost": [_costs(problem, at) for at in range(len(problem.cluster.pools))],
        "workload": {**workload.source, **workload.summary(engine.block_tokens, problem.warmup_s)},
        "belief": asdict(problem.belief),
        "seeds": list(problem.seeds),
    }


def _costs(problem: Problem, at: int) -> dict[str, Any]:
    """The sources behind one pool: device, price, model and the estimator's coefficients."""
    pool = problem.cluster.pools[at]
    own = pool.price_per_hour
    return {
        "pool": pool.name or at,
        "device": {"name": pool.device.name, "source": pool.device.source},
        "price": {
            "usd_per_device_hour": pool.device.price_per_hour or None if own is None else own,
            "basis": pool.device.price_basis if own is None else "the scenario",
        },
        "model": _about(pool.model),
        "kv_blocks": kv_blocks(pool),
        "estimator": dict(problem.cost.build(pool).describe()),
    }


def _about(model: Model) -> dict[str, Any]:
    return {"name": model.name, "parameters": model.parameters, "source": model.source}


def write_yaml(data: dict[str, Any], path: Path) -> None:
    """Write plain data as readable YAML, in its own order."""
    import io

    from ruamel.yaml import YAML

    from poise.report.files import replacing

    yaml = YAML(typ="rt", pure=True)
    yaml.width = 120
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    text = io.BytesIO()
    yaml.dump(data, text)
    with replacing(path) as file:
        file.write(b"# Resolved by Poise: every default written out. `poise simulate` runs it again.\n")
        file.write(text.getvalue())
