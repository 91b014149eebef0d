"""`poise calibrate` and `poise whatif` once their options are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError, UserError
from poise.core.reach import reach
from poise.core.slot import SCENARIO
from poise.cost.fitted import Fitted, load_fitted, save_fitted
from poise.experiment.meter import Bars
from poise.live.parts import read_recording
from poise.policies.find import build
from poise.report.figures import E2E, deciding
from poise.scenario.choice import Choice, choice, labels
from poise.scenario.read import parse_value
from poise.scenario.write import check_writable, put_json, write_json
from poise.truth.calibrate import calibrate
from poise.truth.control import FLEET
from poise.truth.recording import recorded
from poise.truth.spoken import spoken
from poise.truth.whatif import RECORDED, Asked, whatif

if TYPE_CHECKING:
    from poise.experiment.meter import Meter
    from poise.truth.calibrate import Calibration
    from poise.truth.logs.command import Of
    from poise.truth.recording import Recorded
    from poise.truth.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Fit:
    """The options of `poise calibrate`; `json` is a file or `-`."""

    recording: Path
    out: Path | None = None
    prior: Path | None = None
    json: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `poise whatif`; `json` is a file or `-`."""

    recording: Path
    routers: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    replicas: int | None = None
    cost: Path | None = None
    by: str | None = None
    jobs: str | None = None
    ray: str | None = None
    json: str | None = None
    out: Path | None = None
    quiet: bool = False


def calibrate_file(fit: Fit) -> None:
    """Fit a step cost to a recording, print it and write what was asked for."""
    _check_places(fit.json, None)
    if fit.out is not None:
        check_writable(fit.out, "--out")
    prior = None if fit.prior is None else load_fitted(fit.prior)
    with Bars() as bars:
        day, found = _fitted(fit.recording, prior, None if fit.quiet else bars)
    if not fit.quiet and fit.json != "-":
        from poise.truth.show import show_calibration, show_day

        show_day(day)
        show_calibration(found)
    put_json({"coefficients": found.cost.coefficients, **found.as_dict()}, fit.json)
    _keep(found.cost, fit)


def calibrate_log(fit: Fit, of: Of) -> None:
    """Fit a step cost to the log of an engine, print it and write what was asked for."""
    from poise.truth.logs.command import fit_file, show_log

    _check_places(fit.json, None)
    if fit.out is not None:
        check_writable(fit.out, "--out")
    found = fit_file(fit.recording, of, None if fit.prior is None else load_fitted(fit.prior))
    if not fit.quiet and fit.json != "-":
        show_log(found)
    put_json({"coefficients": found.cost.coefficients, **found.cost.about}, fit.json)
    _keep(found.cost, fit)


def _keep(cost: Fitted, fit: Fit) -> None:
    if fit.out is not None:
        save_fitted(cost, fit.out)
        if not fit.quiet:
            print(f"Wrote {fit.out}; a scenario names it as cost: {{fitted: {fit.out}}}", file=spoken(fit.json))


def calibrate_profiles(folder: Path, out: Path | None, quiet: bool) -> None:
    """Fit operator tables to profiles, say what was left out and how far the tables are off, and write them."""
    from poise.truth.profiles.make import fitted_to, make, save
    from poise.truth.profiles.read import read_profiles, told
    from poise.truth.profiles.show import errors

    if out is None:
        raise UserError("--profiles: the tables go to a file; give --out FILE")
    check_writable(out, "--out")
    profiles = read_profiles(folder, fitted_to(folder))
    with Bars() as bars:
        tables = make(profiles, date.today().isoformat(), None if quiet else bars)
    if not tables.tables:
        raise UserError(f"{folder}: no operator of a known device and format has rows enough; see poise devices")
    save(tables, out)
    if not quiet:
        print("\n".join([*told(profiles), "", *errors(tables), ""]))
        print(f"Wrote {out}; a scenario names it as cost: {{measured: {{}}, tables: {out}}}")


def whatif_file(wish: Wish) -> bool:
    """Ask a recording, print and write what came of it; returns whether it was interrupted."""
    asked = _asked(wish)
    _check_places(wish.json, wish.out)
    cost = None if wish.cost is None else load_fitted(wish.cost)
    calibration: Calibration | None = None
    with Bars() as bars:
        meter = None if wish.quiet else bars
        if cost is None:
            day, calibration = _fitted(wish.recording, None, meter)
            cost = calibration.cost
        else:
            day = recorded(read_recording(wish.recording))
        found = whatif(day, asked, cost, calibration, meter)
    if not wish.quiet and wish.json != "-":
        from poise.truth.show import show_calibration, show_day, show_whatif

        show_day(day)
        if calibration is not None:
            show_calibration(calibration)
        show_whatif(found)
    put_json(found.as_dict(), wish.json)
    if wish.out is not None:
        files = _write_folder(found, wish.out)
        if not wish.quiet:
            print(f"Wrote to {wish.out}: {', '.join(file.name for file in files)}", file=spoken(wish.json))
    return found.comparison.interrupted


def _fitted(path: Path, prior: Fitted | None, meter: Meter | None) -> tuple[Recorded, Calibration]:
    day = recorded(read_recording(path))
    return day, calibrate(day, prior=prior, meter=meter)


def _asked(wish: Wish) -> Asked:
    from poise.experiment.workers import workers_of

    if not wish.routers and not wish.policies and wish.replicas is None:
        raise UserError("nothing is asked; give --router NAME, --policies SLOT=NAME or --replicas N")
    if wish.replicas is not None and wish.replicas < 1:
        raise UserError(f"--replicas {wish.replicas}: must be at least 1; give how many engines there would be")
    reach(Path.cwd())
    others = dict(map(_other, wish.policies))
    if len(others) < len(wish.policies):
        raise UserError("--policies: names a slot twice; give each slot once")
    routers = [_chosen(text, f"--router {text}") for text in wish.routers]
    suffix = "".join(f" + {slot}={labels([chosen])[0]}" for slot, chosen in others.items())
    suffix += "" if wish.replicas is None else f" on {wish.replicas} replicas"
    made = {slot: build(slot, *chosen) for slot, chosen in others.items()}
    changes: dict[str, dict[str, Any]] = {}
    for label, chosen in zip(labels(list(routers)), routers, strict=True):
        changes[f"{label}{suffix}"] = {**made, "router": build("router", *chosen)}
    return Asked(
        changes or {f"{RECORDED}{suffix}": made},
        wish.replicas,
        E2E[0] if wish.by is None else deciding(wish.by),
        draw=wish.out is not None,
        workers=workers_of(wish.jobs, wish.ray),
    )


def _other(text: str) -> tuple[str, Choice]:
    """SLOT=NAME."""
    slot, _, name = text.partition("=")
    fixed = ("router", *FLEET)
    if slot not in SCENARIO or not name or slot in fixed:
        known = ", ".join(each for each in SCENARIO if each not in fixed)
        raise UserError(f"--policies {text}: give SLOT=NAME, the slot one of {known} (and routers by --router)")
    return slot, _chosen(name, f"--policies {text}")


def _chosen(text: str, option: str) -> Choice:
    try:
        return choice(parse_value(text, option))
    except ValueError as error:
        raise ScenarioError(f"{option}: {error}") from None


def _check_places(json: str | None, out: Path | None) -> None:
    """Find out what cannot be written before any work is done."""
    if json is not None and json != "-":
        check_writable(Path(json), "--json")
    if out is not None:
        check_writable(out, "--out", folder=True)


def _write_folder(found: WhatIf, folder: Path) -> list[Path]:
    from poise.report.html import html_report
    from poise.scenario.compare.findings import findings
    from poise.truth.page import about

    files = [folder / "report.html", folder / "result.json", folder / "cost.json"]
    html_report(files[0], found.comparison.cases(), about(found), findings(found.comparison, "the recording"))
    write_json(found.as_dict(), files[1])
    save_fitted(found.cost, files[2])
    return files
