"""What `poise systems` and `poise claim` do once their options are read."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.claims import record as records
from poise.claims.bench import Bench, folder
from poise.claims.find import claim, digest, measure
from poise.claims.listed import Listed, find_listed, listed
from poise.claims.page import page
from poise.claims.record import Record
from poise.claims.show import described, show_claim, show_system, show_systems
from poise.core.errors import UserError
from poise.experiment.progress import Bars
from poise.experiment.workers import Workers, cluster, workers_of
from poise.report.files import replacing
from poise.scenario.write import check_json, check_writable

if TYPE_CHECKING:
    from poise.claims.options import ClaimOptions
    from poise.scenario.compare.comparison import Comparison


def list_systems(text: str | None, json: str | None) -> None:
    """Print every system with what became of it, all of a slot or group, or all that is known of one.

    json: a file for the same as data, `-` for standard output instead of the table.

    UserError for a name, arXiv id, slot or group that there is not.
    """
    found = find_listed(text) if text is not None else list(listed())
    if json is not None:
        _check_file(json)
        _put(records.text({"systems": [_whole(each) if len(found) == 1 else described(each) for each in found]}), json)
    if json == "-":
        return
    if text is not None and len(found) == 1:
        show_system(found[0])
    else:
        show_systems(found)


def _check_file(json: str) -> None:
    """UserError for a place that cannot be written, or that is a name of systems: `--json NAME` once listed those."""
    check_json(json)
    if json == "-":
        return
    try:
        find_listed(json)
    except UserError:
        return
    raise UserError(f"--json {json}: is the name of systems; write `poise systems {json} --json -`, or name a file")


def _put(content: str, json: str) -> None:
    """Text to a file, or to standard output for `-`."""
    if json == "-":
        sys.stdout.write(content)
    else:
        with replacing(Path(json)) as file:
            file.write(content.encode())


def _whole(entry: Listed) -> dict[str, Any]:
    """A system with the criteria and curves of its claims."""
    results = [kept.as_dict() for kept in map(records.measured, entry.claims) if kept]
    return described(entry) | {"results": results}


def try_claim(options: ClaimOptions) -> Record:
    """Run a claim again, print and write what was asked for."""
    about = claim(options.name)
    if not about.criteria:
        raise UserError(f"{options.name}: there is nothing to run: {about.lacking}; `poise systems` lists the others")
    if options.save and options.quick:
        raise UserError("--save: a quick run is no result to keep; leave out --quick")
    workers = workers_of(options.jobs, options.ray, usual=1)
    _check_places(options)
    with Bars() as bars, cluster(workers):
        bench = Spread(about, options.quick, folder(options.data), None if options.quiet else bars, workers=workers)
        record = run(options.name, bench)
        if options.save:  # what later quick runs are held to
            quick = run(options.name, replace(bench, quick=True))
            record = replace(record, headlines=records.headlines(quick))
    if not options.quiet and options.json != "-":
        show_claim(options.name, record)
    _write(options, record)
    return record


@dataclass
class Spread(Bench):
    """A bench whose comparisons are run by workers."""

    workers: Workers = field(default_factory=Workers)

    def compare(self, label: str, *args: Any, **options: Any) -> Comparison:
        """`poise.compare` by these workers."""
        return super().compare(label, *args, jobs=self.workers.jobs, ray=self.workers.ray, **options)


def run(name: str, bench: Bench) -> Record:
    """Run the experiment of a system and date it; where chance leaves something open, again with more seeds."""
    began, code = _cpu_s(), digest(name)
    least, most = claim(name).rounds
    while True:
        record = records.made(name, measure(name, bench), code, _cpu_s() - began, quick=bench.quick)
        more = 2 * bench.times
        if bench.quick or least * more > most or all(each.met is not None for each in record.outcomes):
            return record
        bench = replace(bench, times=more)


def _cpu_s() -> float:
    """Seconds of a processor that this process and those it began have had."""
    return sum(os.times()[:4])


def _check_places(options: ClaimOptions) -> None:
    """Find out what cannot be written before any work is done."""
    check_json(options.json)
    if options.out is not None:
        check_writable(options.out, "--out", folder=True)
    if options.save:
        check_writable(records.FOLDER, "--save", folder=True)


def _write(options: ClaimOptions, record: Record) -> None:
    content = records.text(record.as_dict())
    files: dict[Path, str] = {}
    if options.json == "-":
        sys.stdout.write(content)
    elif options.json is not None:
        files[Path(options.json)] = content
    if options.out is not None:
        files |= {options.out / "report.html": page(claim(options.name), record), options.out / "result.json": content}
    for path, each in files.items():
        with replacing(path) as file:
            file.write(each.encode())
    written = [*files, *([records.save(record)] if options.save else [])]
    if written and not options.quiet:
        print(f"Wrote {', '.join(map(str, written))}", file=sys.stderr if options.json == "-" else sys.stdout)
