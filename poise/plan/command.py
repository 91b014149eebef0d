"""The command `poise plan` after its options are parsed: search, print, write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from poise.core.errors import UserError

if TYPE_CHECKING:
    from poise.core.spec import Device, Format
    from poise.plan.options import PlanOptions
    from poise.plan.plan import Plan, PlanQuestion
    from poise.plan.trial import Trial

ENGINES = ("vllm", "sglang", "tensorrt-llm")


def plan_fleet(options: PlanOptions) -> bool:
    """Find a plan, print it and write its files; returns whether it was interrupted."""
    from poise.experiment.progress import Bars
    from poise.experiment.workers import workers_of
    from poise.plan.plan import SearchOptions, plan
    from poise.scenario.write import check_json, check_writable

    check_json(options.json)
    if options.out is not None:
        check_writable(options.out, "--out", folder=True)
    workers, places = workers_of(options.jobs, options.ray), _places(options)
    question = ask(options)
    with Bars() as bars:
        ways = SearchOptions(
            workers, options.time_s, None if options.quiet else bars, None if options.quiet else Better()
        )
        found = plan(question, ways)
    _show(options, found)
    _write(options, found, places)
    if found.best is None and not found.found.interrupted:
        raise UserError("no fleet of the devices given holds the SLO; what would is above")
    return found.found.interrupted


def ask(options: PlanOptions) -> PlanQuestion:
    """The question that the options state; UserError where they are not valid."""
    from poise.catalogue import device, model
    from poise.catalogue.engines import engine_defaults
    from poise.intervals.own import Own, load_own
    from poise.plan.cap import read_caps
    from poise.plan.goal import AIMS, Goal, read_slo
    from poise.plan.plan import PlanQuestion
    from poise.plan.start import read_start
    from poise.plan.traffic import Source
    from poise.scenario.engine_cost import EngineCost
    from poise.scenario.speculative import read_speculative

    slo, attainment = read_slo(options.slo)
    if options.minimize not in AIMS:
        raise UserError(f"--minimize {options.minimize}: there is no such aim; give {', '.join(AIMS)}")
    if options.engine not in ENGINES:
        raise UserError(f"--engine {options.engine}: is not known; give {', '.join(ENGINES)}")
    devices = tuple(dict.fromkeys(device(name) for name in _names(options.devices, "--devices", "H100,L40S")))
    prices, basis = _prices(options, devices)
    drafts = read_speculative(options.speculative) if options.speculative else None
    return PlanQuestion(
        source=Source(
            options.recorded, options.rate, _length(options.prompt_tokens, "--prompt-tokens"),
            _length(options.output_tokens, "--output-tokens"), options.sets, options.columns,
        ),
        model=model(options.model),
        goal=Goal(slo, attainment, options.minimize, options.budget, options.power_w, options.confidence or None),  # type: ignore[arg-type]
        devices=devices,
        prices=prices,
        basis=basis,
        formats=_formats(options.formats, "--formats"),
        kv=_formats(options.kv, "--kv"),
        engine=engine_defaults(options.engine).engine(),
        cost=EngineCost(options.engine, speculative=drafts),
        split=not options.no_split,
        mix=not options.no_mix,
        widest=options.widest,
        caps=read_caps(options.cap_w, devices, wanted=options.minimize == "energy" or options.power_w is not None),
        requests=options.requests,
        seeds=options.seeds,
        scale=options.scale,
        start=read_start(options.start),
        own=Own() if options.own is None else load_own(options.own),
    )  # fmt: skip


def _prices(options: PlanOptions, devices: Iterable[Device]) -> tuple[dict[str, Any], str]:
    """Prices where they are needed: a fleet of least devices or energy needs none."""
    from poise.plan.prices import prices_of

    names = [each.name for each in devices]
    if options.prices is not None or options.minimize == "cost" or options.budget is not None:
        return prices_of(names, options.prices)
    try:
        return prices_of(names, None)
    except UserError:
        return {}, ""


def _formats(text: str, option: str) -> tuple[Format, ...]:
    from poise.core.spec import Format

    chosen = _names(text, option, "bf16,fp8")
    for name in chosen:
        if name not in get_args(Format):
            raise UserError(f"{option} {name}: is not a format; give {', '.join(get_args(Format))}")
    return tuple(chosen)  # type: ignore[arg-type]


def _names(text: str, option: str, example: str) -> list[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise UserError(f"{option}: names nothing; give one or more, as in {example}")
    return list(dict.fromkeys(names))


def _length(text: str | None, option: str) -> Any:
    from poise.scenario.read import parse_value

    return None if text is None else parse_value(text, f"{option} {text}")


def _places(options: PlanOptions) -> dict[str, Any]:
    """Where the plan is deployed, as `Setting` has it."""
    from poise.core.spec import Format

    checkpoints = _pairs(options.checkpoints, "--checkpoint", "fp8=RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8")
    for name in checkpoints:
        if name not in get_args(Format):
            raise UserError(f"--checkpoint {name}=…: {name} is not a format; give {', '.join(get_args(Format))}")
    return {
        "hosts": () if options.hosts is None else tuple(_names(options.hosts, "--hosts", "gpu1,gpu2")),
        "checkpoints": checkpoints,
        "images": _pairs(options.images, "--image", "NVIDIA=vllm/vllm-openai:v0.12.0"),
    }


def _pairs(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """`NAME=VALUE` as a mapping."""
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise UserError(f"{option} {text}: is not NAME=VALUE; give one as in {example}")
        pairs[name] = value
    return pairs


class Better:
    """Prints each better fleet as it is found, on a terminal or for a program that reads the progress."""

    def __init__(self) -> None:
        import time

        self._since, self._clock = time.monotonic(), time.monotonic

    def __call__(self, trial: Trial) -> None:
        """Print one fleet, if the output is a terminal or read by a program."""
        from poise.experiment.progress import for_programs
        from poise.plan.answer import counted

        fleet = trial.fleet
        price = f" ${fleet.price_per_hour:.2f}/h" if fleet.price_per_hour else ""
        line = f"{fleet.written}, {fleet.router}:{price} {counted(fleet.devices)}"
        if for_programs():
            print(json.dumps({"best": line}), file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            print(f"{self._clock() - self._since:5.1f} s  {line}", file=sys.stderr)


def _show(options: PlanOptions, found: Plan) -> None:
    from poise.plan.show import show_plan

    if options.json != "-" and not (options.quiet and found.best is not None):
        show_plan(found)


def _write(options: PlanOptions, found: Plan, places: dict[str, Any]) -> None:
    from poise.plan.to_dict import as_dict
    from poise.report.tidy import in_short
    from poise.scenario.write import put_json

    put_json(as_dict(found), options.json)
    if options.out is not None:
        files = _write_folder(found, options.out, places)
        if not options.quiet:
            names = f"Wrote to {options.out}: {', '.join(in_short(files, options.out))}"
            print("\n".join([names, *_lacking(found, places)]), file=sys.stderr if options.json == "-" else sys.stdout)


def _lacking(found: Plan, places: dict[str, Any]) -> list[str]:
    """The names of files that only say why they cannot be made."""
    from poise.plan.deploy.folder import refused

    if found.deployed is None:
        return []
    return [f"{name}: {why}" for name, why in refused(found.deployed, replace(found.setting, **places)).items()]


def _write_folder(found: Plan, folder: Path, places: dict[str, Any]) -> list[Path]:
    """Write the page, the JSON, and the files that deploy the plan where there is one; `places`: its hosts."""
    from poise.plan.deploy.folder import write_deployment
    from poise.plan.page import write_page
    from poise.plan.to_dict import as_dict
    from poise.scenario.write import write_json

    json_file = folder / "plan.json"
    write_json(as_dict(found), json_file)
    deployed = found.deployed
    files = [] if deployed is None else write_deployment(deployed, replace(found.setting, **places), folder)
    return [json_file, *write_page(found, folder, files), *files]
