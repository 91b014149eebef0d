"""Shards of an experiment that ran separately, each into its own folder, and merging them into one folder.

FOLDER/part.json   which shard of which experiment; written when the shard is complete
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.experiment.run import Shard
from poise.experiment.store import flat
from poise.experiment.tournament.ledger import FILE as LEDGER
from poise.report.files import replacing, to_json

PART = "part.json"


def finish(folder: Path, shard: Shard, experiment: Mapping[str, Any]) -> None:
    """Mark a shard as complete, with its experiment."""
    with replacing(folder / PART) as file:
        file.write(to_json({"part": shard.number, "of": shard.parts, "experiment": dict(experiment)}).encode())


def join(out: Path, parts: Sequence[Path]) -> dict[str, Any]:
    """Merge the cells and runs of all parts into `out`; returns the experiment.

    UserError where a part is missing, given twice, not finished, or of something else than the first.
    """
    marks = [_read(part) for part in parts]
    _check(parts, marks)
    for part in parts:
        for file in sorted(part.rglob("*")):
            place = out / file.relative_to(part)
            if file.is_file() and not file.name.startswith(".") and file.name not in (PART, LEDGER):
                _bring(file, place)
    _bring_runs([part / LEDGER for part in parts], out / LEDGER)
    experiment: dict[str, Any] = marks[0]["experiment"]
    return experiment


def _read(part: Path) -> dict[str, Any]:
    file = part / PART
    try:
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{part}: is not a finished part ({PART} is missing); run it to its end with --shard and --resume"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}); run the part again with --shard and --resume") from None
    if "asked" in fields:  # in parts of version 0.1
        fields["experiment"] = fields.pop("asked")
    return fields


def _check(parts: Sequence[Path], marks: Sequence[Mapping[str, Any]]) -> None:
    """UserError where the parts are not all of one experiment, each once."""
    count, first = marks[0]["of"], flat(marks[0]["experiment"])
    home: dict[int, Path] = {}
    for part, each in zip(parts, marks, strict=True):
        if each["of"] != count:
            raise UserError(
                f"{part}: is one of {each['of']} parts, and {parts[0]} one of {count}; give parts of one run"
            )
        own = flat(each["experiment"])
        for name in {**first, **own}:
            if first.get(name) != own.get(name):
                raise UserError(
                    f"{part}: is of another experiment than {parts[0]} ({name} is {own.get(name)!r} and not "
                    f"{first.get(name)!r}); give parts of one run"
                )
        if each["part"] in home:
            raise UserError(f"{part}: is part {each['part']}/{count}, as {home[each['part']]} is; give each part once")
        home[each["part"]] = part
    if missing := [f"{number}/{count}" for number in range(1, count + 1) if number not in home]:
        raise UserError(f"part {', '.join(missing)} is missing; run it with --shard, and give its folder as well")


def _bring(file: Path, place: Path) -> None:
    """Copy a file; UserError where there is another one in its place."""
    content = file.read_bytes()
    if not place.exists():
        with replacing(place) as made:
            made.write(content)
    elif place.read_bytes() != content:
        raise UserError(f"{file}: is not what {place} is; merge into a folder of its own, and run parts alike")


def _bring_runs(files: Sequence[Path], place: Path) -> None:
    """The lines of the ledgers that are there, each run once."""
    lines = [line for file in (place, *files) if file.exists() for line in file.read_text("utf-8").splitlines()]
    if lines:
        runs = {json.loads(line)["print"]: line for line in reversed(lines)}
        with replacing(place) as made:
            made.write("".join(f"{line}\n" for line in reversed(runs.values())).encode())
