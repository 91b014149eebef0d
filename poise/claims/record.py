"""The committed results: what was measured, when, with which code; written only by running."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poise.claims.claim import Criterion, Curve, Findings, Point, verdict
from poise.claims.find import claim, digest
from poise.core.spec import Engine
from poise.core.version import version
from poise.report.files import replacing
from poise.report.intervals import TOO_SHORT

FOLDER = Path(__file__).parent / "measured"
"""One file for each system that was measured."""


@dataclass(frozen=True, slots=True)
class Record:
    """The result of one run of a claim.

    date: UTC.  poise, engine: versions.  digest: of the code that it depends on.  cpu_s: seconds of one core.
    """

    name: str
    findings: Findings
    date: str
    poise: str
    engine: str
    digest: str
    cpu_s: float
    quick: bool = False

    @property
    def verdict(self) -> str:
        """What the criteria come to; of a quick run whose headlines chance decides, that it is too short."""
        said = verdict(self.findings.criteria)
        return TOO_SHORT if self.quick and said == "not testable" else said

    @property
    def stale(self) -> bool:
        """Whether the code that it depends on is another by now."""
        return self.digest != digest(self.name)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, figures to five significant digits."""
        about = claim(self.name)
        return {
            "name": self.name,
            "system": about.system,
            "verdict": self.verdict,
            "quick": self.quick,
            "date": self.date,
            "poise": self.poise,
            "engine": self.engine,
            "digest": self.digest,
            "cpu_s": round(self.cpu_s, 1),
            "criteria": [asdict(each) for each in self.findings.criteria],
            "curves": [_curve(each) for each in self.findings.curves],
        }


def made(name: str, findings: Findings, code: str, cpu_s: float, *, quick: bool) -> Record:
    """The record of a run that ends now; `code` is the digest of what it began with."""

    today = datetime.now(UTC).date().isoformat()
    engine = f"{Engine().name} {Engine().version}"
    return Record(name, findings, today, version(), engine, code, cpu_s, quick)


def measured(name: str) -> Record | None:
    """The committed result of a system; None where there is none."""
    file = FOLDER / f"{name}.json"
    return read(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def read(told: Mapping[str, Any]) -> Record:
    """The record that `as_dict` gave."""
    criteria = [Criterion(**each) for each in told["criteria"]]
    curves = [
        Curve(
            each["title"],
            each["across"],
            each["kind"],
            {name: [Point(*point) for point in points] for name, points in each["lines"].items()},
        )
        for each in told["curves"]
    ]
    kept = {name: told[name] for name in ("name", "date", "poise", "engine", "digest", "cpu_s", "quick")}
    return Record(findings=Findings(criteria, curves), **kept)


def save(record: Record) -> Path:
    """Write the committed result of a system and return its file."""
    file = FOLDER / f"{record.name}.json"
    with replacing(file) as out:
        out.write(text(record.as_dict()).encode())
    return file


def text(told: Mapping[str, Any]) -> str:
    """Plain data as JSON text."""
    return json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _curve(curve: Curve) -> dict[str, Any]:
    lines = {name: [[_short(value) for value in point] for point in points] for name, points in curve.lines.items()}
    return {"title": curve.title, "across": curve.across, "kind": curve.kind, "lines": lines}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
