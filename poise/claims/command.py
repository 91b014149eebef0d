"""What `poise systems` and `poise claim` do once their options are read."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.claims import record as records
from poise.claims.bench import Bench, folder
from poise.claims.find import claim, digest, measure
from poise.claims.groups import find_group
from poise.claims.page import page
from poise.claims.record import Record, text
from poise.claims.show import show_claim, show_system, show_systems, systems
from poise.core.errors import UserError
from poise.experiment.meter import Bars
from poise.experiment.workers import Workers, cluster, workers_of
from poise.report.files import replacing
from poise.scenario.write import check_writable

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `poise claim`; `json` is a file or `-`."""

    name: str
    quick: bool = False
    data: Path | None = None
    out: Path | None = None
    json: str | None = None
    save: bool = False
    quiet: bool = False
    jobs: str | None = None
    ray: str | None = None


def list_systems(name: str | None, group: str | None, as_json: bool) -> None:
    """Print every system with what became of its claim, those of a group, or all that is known of one.

    UserError for an unknown system or group, and where both are given.
    """
    if name is not None and group is not None:
        raise UserError(f"--group {group}: stands beside the system {name}; give one or the other")
    wanted = None if group is None else find_group(group)
    told = [each for each in systems(name) if wanted in (None, each["group"])]
    if as_json:
        sys.stdout.write(text({"systems": [_whole(each) for each in told] if name else told}))
    elif name is not None:
        show_system(name)
    else:
        show_systems(told)


def _whole(told: dict[str, Any]) -> dict[str, Any]:
    """A system with its criteria and curves."""
    kept = records.measured(told["name"])
    return told | ({"result": kept.as_dict()} if kept else {})


def try_claim(wish: Wish) -> Record:
    """Run a claim again, print and write what was asked for."""
    about = claim(wish.name)
    if about.untestable:
        raise UserError(f"{wish.name}: there is nothing to run: {about.untestable}; `poise systems` lists the others")
    if wish.save and wish.quick:
        raise UserError("--save: a quick run is no result to keep; leave out --quick")
    workers = workers_of(wish.jobs, wish.ray, usual=1)
    _check_places(wish)
    with Bars() as bars, cluster(workers):
        record = run(wish.name, Spread(wish.quick, folder(wish.data), None if wish.quiet else bars, workers))
    if not wish.quiet and wish.json != "-":
        show_claim(about, record)
    _write(wish, record)
    return record


@dataclass
class Spread(Bench):
    """A bench whose comparisons are run by workers."""

    workers: Workers = field(default_factory=Workers)

    def compare(self, label: str, *args: Any, **options: Any) -> Comparison:
        """`poise.compare` by these workers."""
        return super().compare(label, *args, jobs=self.workers.jobs, ray=self.workers.ray, **options)


def run(name: str, bench: Bench) -> Record:
    """Run the experiment of a system and date it."""
    began, code = _cpu_s(), digest(name)
    findings = measure(name, bench)
    return records.made(name, findings, code, _cpu_s() - began, quick=bench.quick)


def _cpu_s() -> float:
    """Seconds of a processor that this process and those it began have had."""
    return sum(os.times()[:4])


def _check_places(wish: Wish) -> None:
    """Find out what cannot be written before any work is done."""
    if wish.json is not None and wish.json != "-":
        check_writable(Path(wish.json), "--json")
    if wish.out is not None:
        check_writable(wish.out, "--out", folder=True)
    if wish.save:
        check_writable(records.FOLDER, "--save", folder=True)


def _write(wish: Wish, record: Record) -> None:
    told = text(record.as_dict())
    files: dict[Path, str] = {}
    if wish.json == "-":
        sys.stdout.write(told)
    elif wish.json is not None:
        files[Path(wish.json)] = told
    if wish.out is not None:
        files |= {wish.out / "report.html": page(claim(wish.name), record), wish.out / "result.json": told}
    for path, content in files.items():
        with replacing(path) as file:
            file.write(content.encode())
    written = [*files, *([records.save(record)] if wish.save else [])]
    if written and not wish.quiet:
        print(f"Wrote {', '.join(map(str, written))}", file=sys.stderr if wish.json == "-" else sys.stdout)
