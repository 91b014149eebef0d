"""The committed results: what was measured, when, with which code; written only by running.

A record holds figures by key. What they were asked for stands in the claim, and is joined to them on reading, so that
prose and tests may change without a new run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poise.claims.answer import Answer, Findings, Ratio, judge
from poise.claims.claim import Curve, Outcome, Point, verdict
from poise.claims.find import claim, digest
from poise.core.errors import PoiseError
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
    headlines: what a quick run of the same code had of the headline, by key; later quick runs are held to it.
    """

    name: str
    findings: Findings
    date: str
    poise: str
    engine: str
    digest: str
    cpu_s: float
    quick: bool = False
    headlines: Mapping[str, bool | None] = field(default_factory=dict)

    @property
    def outcomes(self) -> list[Outcome]:
        """Every criterion of the claim with what came out, the headline first."""
        about = claim(self.name)
        found = {each.key: each for each in self.findings.answers}
        lacking = [key for key in about.criteria if key not in found]
        if lacking:
            raise PoiseError(f"{self.name}: nothing was measured for {', '.join(lacking)}; measure it again")
        return [
            Outcome(key, each, key in about.headline, found[key].text, judge(found[key], each.test))
            for key, each in about.criteria.items()
        ]

    @property
    def notes(self) -> dict[str, str]:
        """What is told and not judged: what it is about, and what came out."""
        texts = {each.key: each.text for each in self.findings.answers}
        return {note: texts[key] for key, note in claim(self.name).notes.items() if key in texts}

    @property
    def verdict(self) -> str:
        """What the criteria come to; of a quick run whose headlines chance decides, that it is too short."""
        outcomes = self.outcomes
        if self.quick and all(each.met is None for each in outcomes if each.headline):
            return TOO_SHORT
        return verdict(outcomes, claim(self.name).lacking)

    @property
    def stale(self) -> bool:
        """Whether the code that it depends on is another by now."""
        return self.digest != digest(self.name)

    def as_dict(self) -> dict[str, Any]:
        """All of it with what the claim says, as plain data; figures to five or six significant digits."""
        joined = {
            "system": claim(self.name).system,
            "verdict": self.verdict,
            "criteria": [each.as_dict() for each in self.outcomes],
            "notes": self.notes,
        }
        return self.kept() | joined

    def kept(self) -> dict[str, Any]:
        """What a committed result holds."""
        return {
            "name": self.name,
            "date": self.date,
            "poise": self.poise,
            "engine": self.engine,
            "digest": self.digest,
            "cpu_s": round(self.cpu_s, 1),
            "quick": self.quick,
            "headlines": dict(self.headlines),
            "measured": {each.key: {"text": each.text, "found": _found(each)} for each in self.findings.answers},
            "curves": [_curve(each) for each in self.findings.curves],
        }


def headlines(record: Record) -> dict[str, bool | None]:
    """What a run has of its headline, by key."""
    return {each.key: each.met for each in record.outcomes if each.headline}


def made(name: str, findings: Findings, code: str, cpu_s: float, *, quick: bool) -> Record:
    """The record of a run that ends now; `code` is the digest of what it began with."""

    today = datetime.now(UTC).date().isoformat()
    engine = f"{Engine().name} {Engine().version}"
    return Record(name, findings, today, version(), engine, code, cpu_s, quick)


def measured(name: str) -> Record | None:
    """The committed result of a system; None where there is none."""
    file = FOLDER / f"{name}.json"
    return read(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def read(data: Mapping[str, Any]) -> Record:
    """The record that `kept` or `as_dict` gave, of this version or of 0.1."""
    answers = [
        Answer(key, each["text"] if "text" in each else each["told"], _values(each["found"]))
        for key, each in data["measured"].items()
    ]
    curves = [
        Curve(
            each["title"],
            each["across"],
            each["kind"],
            {name: [Point(*point) for point in points] for name, points in each["lines"].items()},
        )
        for each in data["curves"]
    ]
    names = ("name", "date", "poise", "engine", "digest", "cpu_s", "quick", "headlines")
    return Record(findings=Findings(answers, curves), **{name: data[name] for name in names})


def save(record: Record) -> Path:
    """Write the committed result of a system and return its file."""
    file = FOLDER / f"{record.name}.json"
    with replacing(file) as out:
        out.write(compact(record.kept()).encode())
    return file


def text(data: Mapping[str, Any]) -> str:
    """Plain data as JSON text."""
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def compact(data: Any, depth: int = 0) -> str:
    """The same with every list of numbers, and all that fits, on a line of its own."""
    line = json.dumps(data, allow_nan=False, ensure_ascii=False)
    flat = isinstance(data, list) and not any(isinstance(each, dict) for each in data)
    if flat or not isinstance(data, list | dict) or not data or (depth and len(line) <= 100):
        return line
    pad, end = " " * (depth + 1), " " * depth
    if isinstance(data, list):
        return "[\n" + ",\n".join(f"{pad}{compact(each, depth + 1)}" for each in data) + f"\n{end}]"
    rows = (f"{pad}{json.dumps(key, ensure_ascii=False)}: {compact(each, depth + 1)}" for key, each in data.items())
    return "{\n" + ",\n".join(rows) + f"\n{end}}}" + ("" if depth else "\n")


def _found(answer: Answer) -> Any:
    """A plain answer, or values with the ends of their intervals; a number alone where there is none."""
    values = answer.values
    if values is None or isinstance(values, bool):
        return values
    return [_short(each) if isinstance(each, float) else [_short(end) for end in each] for each in values]


def _values(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    return [Ratio(*each) if isinstance(each, list) else float(each) for each in found]


def _curve(curve: Curve) -> dict[str, Any]:
    lines = {name: [[_short(value, 5) for value in point] for point in points] for name, points in curve.lines.items()}
    return {"title": curve.title, "across": curve.across, "kind": curve.kind, "lines": lines}


def _short(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")
