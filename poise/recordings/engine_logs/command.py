"""The command `poise calibrate ENGINE.log`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from poise.catalogue import device, model
from poise.core.errors import TraceError, UserError
from poise.cost.fitted import Fitted
from poise.live.parts import ENDINGS
from poise.recordings.engine_logs.fit import LogFit, fit_log, reasons
from poise.recordings.engine_logs.windows import read_lines
from poise.recordings.show import MEANING, sure
from poise.report.table import show
from poise.report.wording import duration, write


@dataclass(frozen=True, slots=True)
class Of:
    """The provenance of a log: catalogue names, and devices that a model is split over."""

    model: str | None = None
    device: str | None = None
    tensor: int | None = None

    def check(self) -> None:
        """ScenarioError for a name that the catalogue does not have, UserError for a split over no device."""
        if self.model is not None:
            model(self.model)
        if self.device is not None:
            device(self.device)
        if self.tensor is not None and self.tensor < 1:
            raise UserError(
                f"--tensor {self.tensor}: must be at least 1; give the devices that the model is split over"
            )

    def as_dict(self) -> dict[str, str | int]:
        """The known fields."""
        known = {"model": self.model, "device": self.device, "tensor": self.tensor}
        return {name: value for name, value in known.items() if value is not None}


def is_log(path: Path) -> bool:
    """Whether it is a text file that does not begin as a recording does."""
    if path.suffix in ENDINGS or not path.is_file():
        return False
    with path.open("rb") as file:
        return not file.read(1).startswith(b"{")


def fit_file(path: Path, of: Of, prior: Fitted | None) -> LogFit:
    """Read a log and fit to it; TraceError for a log with too little data."""
    of.check()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            log = read_lines(file)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give the log of an engine") from None
    found = fit_log(log, str(path), prior=prior)
    about = {"log": path.name, "engine": log.engine, **of.as_dict(), **found.cost.about}
    return replace(found, cost=replace(found.cost, about=about))


def show_log(found: LogFit, file: TextIO | None = None) -> None:
    """Print the coefficients with their standard errors, the held-out errors, and what was left out."""
    out = file or sys.stdout
    rows = [
        (MEANING[name], duration(value), sure(found, name, value)) for name, value in found.cost.coefficients.items()
    ]
    show(f"Step cost, fitted to {found.rows:,} {found.of}", ("time of", "", "standard error"), rows, out)
    off = [
        (name.replace("_", " "), write(each["median"], "share", 3), write(each["p90"], "share", 3))
        for name, each in found.held_out.items()
    ]
    show("Errors of steps that the fit did not see", ("", "median", "p90"), off, out)
    for name, why in found.kept.items():
        out.write(f"{name} is not known from the log: {why}.\n")
    if found.left:
        out.write(f"Left out: {reasons(found.left)}.\n")
    for note in found.notes:
        out.write(f"Note: {note}.\n")
