"""The commands `poise calibrate` and `poise whatif` after their options are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError, UserError
from poise.core.plugin import reach
from poise.core.records.trace import Trace
from poise.core.slot import SCENARIO
from poise.core.spec import MOST_REPLICAS
from poise.cost.fitted import Fitted, load_fitted, save_fitted
from poise.experiment.progress import Bars
from poise.live.parts import read_recording
from poise.policies.find import build
from poise.recordings.calibrate import calibrate
from poise.recordings.control import FLEET
from poise.recordings.output import spoken
from poise.recordings.recording import recorded
from poise.recordings.whatif import RECORDED, WhatIfQuestion, whatif
from poise.recordings.workers import Together
from poise.report.figures import E2E, deciding
from poise.report.tidy import in_short
from poise.scenario.policy_spec import Choice, choice, labels
from poise.scenario.read import parse_value
from poise.scenario.write import check_json, check_writable, put_json, write_json

if TYPE_CHECKING:
    from poise.experiment.progress import Meter
    from poise.recordings.calibrate import Calibration
    from poise.recordings.engine_logs.command import Of
    from poise.recordings.options import RecordingOptions
    from poise.recordings.recording import Recorded
    from poise.recordings.whatif import WhatIf
    from poise.report.findings import Findings


@dataclass(frozen=True, slots=True)
class Fit:
    """The options of `poise calibrate`; `json` is a file or `-`."""

    recording: Path
    out: Path | None = None
    prior: Path | None = None
    json: str | None = None
    quiet: bool = False


def calibrate_file(fit: Fit) -> None:
    """Fit a step cost to a recording, print it and write its files."""
    _check_places(fit.json, None)
    if fit.out is not None:
        check_writable(fit.out, "--out")
    prior = None if fit.prior is None else load_fitted(fit.prior)
    with Bars() as bars:
        day, found = _fitted([fit.recording], prior, None if fit.quiet else bars)
    if not fit.quiet and fit.json != "-":
        from poise.recordings.show import show_calibration, show_day

        show_day(day)
        show_calibration(found)
    put_json({"coefficients": found.cost.coefficients, **found.as_dict()}, fit.json)
    _keep(found.cost, fit)


def calibrate_log(fit: Fit, of: Of) -> None:
    """Fit a step cost to the log of an engine, print it and write its files."""
    from poise.recordings.engine_logs.command import fit_file, show_log

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
    """Fit operator tables to profiles, print what was left out and the tables' errors, and write them."""
    from poise.recordings.profiles.make import fitted_to, make, save
    from poise.recordings.profiles.read import described, read_profiles
    from poise.recordings.profiles.show import errors

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
        print("\n".join([*described(profiles), "", *errors(tables), ""]))
        print(f"Wrote {out}; a scenario names it as cost: {{measured: {{}}, tables: {out}}}")


def whatif_file(options: RecordingOptions) -> bool:
    """Answer the what-if of a recording, print and write it; returns whether it was interrupted."""
    question = _question(options)
    _check_places(options.json, options.out)
    cost = None if options.cost is None else load_fitted(options.cost)
    calibration: Calibration | None = None
    with Bars() as bars:
        progress = None if options.quiet else bars
        if cost is None:
            day, calibration = _fitted(options.recordings, None, progress)
            cost = calibration.cost
        else:
            day = recorded(_read(options.recordings))
        found = whatif(day, question, cost, calibration, progress)
    if not options.quiet and options.json != "-":
        from poise.recordings.show import show_whatif

        show_whatif(found)
    put_json(found.as_dict(), options.json)
    if options.out is not None:
        files = _write_folder(found, options.out)
        if not options.quiet:
            print(f"Wrote to {options.out}: {', '.join(in_short(files, options.out))}", file=spoken(options.json))
    return found.comparison.interrupted


def _read(paths: Sequence[Path]) -> Trace:
    """One recording, or those of several workers as one."""
    if len(set(paths)) < len(paths):
        raise UserError("a recording is given twice; give each worker's once")
    read = [read_recording(path) for path in paths]
    return read[0] if len(read) == 1 else Together(read)


def _fitted(paths: Sequence[Path], prior: Fitted | None, progress: Meter | None) -> tuple[Recorded, Calibration]:
    day = recorded(_read(paths))
    return day, calibrate(day, prior=prior, progress=progress)


def _question(options: RecordingOptions) -> WhatIfQuestion:
    from poise.experiment.workers import workers_of

    if not options.routers and not options.policies and options.replicas is None:
        raise UserError("nothing is asked; give --router NAME, --policies SLOT=NAME or --replicas N")
    if options.replicas is not None and not 1 <= options.replicas <= MOST_REPLICAS:
        raise UserError(
            f"--replicas {options.replicas}: must be from 1 to {MOST_REPLICAS:,}; give how many engines there would be"
        )
    reach(Path.cwd())
    others = dict(map(_other, options.policies))
    if len(others) < len(options.policies):
        raise UserError("--policies: names a slot twice; give each slot once")
    routers = [_chosen(text, f"--router {text}") for text in options.routers]
    suffix = "".join(f" + {slot}={labels([chosen])[0]}" for slot, chosen in others.items())
    suffix += "" if options.replicas is None else f" on {options.replicas} replicas"
    made = {slot: build(slot, *chosen) for slot, chosen in others.items()}
    changes: dict[str, dict[str, Any]] = {}
    for label, chosen in zip(labels(list(routers)), routers, strict=True):
        changes[f"{label}{suffix}"] = {**made, "router": build("router", *chosen)}
    return WhatIfQuestion(
        changes or {f"{RECORDED}{suffix}": made},
        options.replicas,
        E2E[0] if options.by is None else deciding(options.by),
        draw=options.out is not None,
        workers=workers_of(options.jobs, options.ray),
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
    """Check that the files can be written before any work is done."""
    check_json(json)
    if out is not None:
        check_writable(out, "--out", folder=True)


def _write_folder(found: WhatIf, folder: Path) -> list[Path]:
    from poise.recordings.page import about
    from poise.report.html import html_report

    files = [folder / "report.html", folder / "result.json", folder / "cost.json"]
    _, *data = html_report(files[0], found.comparison.cases(), about(found), _findings(found), data=True)
    write_json(found.as_dict(), files[1])
    save_fitted(found.cost, files[2])
    return files + data


def _findings(found: WhatIf) -> Findings:
    from poise.scenario.compare.findings import findings

    return replace(findings(found.comparison, "the recording"), answer=found.answer())
