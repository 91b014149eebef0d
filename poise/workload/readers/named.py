"""Columns that the user names, and suggestions where a file has none of a known name."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher, get_close_matches

from poise.core.errors import TraceError, UserError
from poise.workload.readers.format import FIELDS, Format, Source, normal
from poise.workload.readers.generic import GENERIC, MILLI

SHOWN = 12
"""Columns of a file that an error lists at most."""

CLOSE = 0.8
"""How alike a column's name must be to a known one to be suggested for that alone."""

TIMED = ("arrival_s", "delay_s", "deadline_s", "timeout_s")
"""Fields in seconds: a column whose name ends in `_ms` holds thousandths of them."""


def named(path: str, columns: Mapping[str, str], found: Collection[str]) -> dict[str, Source]:
    """The columns of a file that hold fields, as its user says; TraceError for a field or a column that there is not.

    columns: for a field, as arrival_s, the column's name; nested JSON by its path, as usage.prompt_tokens.
    found: normalised names of the file's columns.
    """
    chosen = {}
    for field, column in columns.items():
        if field not in FIELDS:
            near = get_close_matches(field, FIELDS, 1)
            cure = f"did you mean {near[0]}?" if near else f"give one of {', '.join(FIELDS)}"
            raise TraceError(f"{path}: columns: {field!r} is not a field of a request; {cure}")
        name = normal(str(column))
        if name not in found:
            near = get_close_matches(name, found, 1)
            cure = f"did you mean {near[0]!r}?" if near else f"the file has {listed(found)}"
            raise TraceError(f"{path}: columns: {field} is {column!r}, and no column has that name; {cure}")
        chosen[field] = Source(name, MILLI if field in TIMED and name.endswith("_ms") else 1.0)
    return chosen


def parse_columns(text: str) -> dict[str, str]:
    """The columns that `FIELD=COLUMN,FIELD=COLUMN` names; quotes keep commas. UserError where a part names none."""
    pairs = {}
    for part in next(csv.reader([text], skipinitialspace=True), []):
        field, equals, column = part.partition("=")
        if not equals or not field.strip() or not column.strip():
            raise UserError(f"--columns {text}: {part!r} names no column; give FIELD=COLUMN, as in arrival_s=created")
        pairs[field.strip()] = column.strip().strip('"')
    return pairs


def listed(found: Collection[str]) -> str:
    """The first columns of a file by name, and how many more there are."""
    names = sorted(found)
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def lacking(path: str, chosen: Format, fields: Collection[str], found: Collection[str]) -> str:
    """What to say of a file that has no column for `fields`: what is missing, and the option that names it."""
    near = suggested(chosen, fields, found)
    pairs = [f"{field}: {near.get(field, '…')}" for field in fields]
    option = ",".join(f"{field}={near.get(field, '…')}" for field in fields)
    means = {field: FIELDS[field] for field in fields}
    if chosen is not GENERIC:
        means = {field: " or ".join(source.column for source in chosen.columns[field]) for field in fields}
    missing = ", ".join(f"{field} ({means[field]})" for field in fields)
    form = "" if chosen is GENERIC else f" in format {chosen.name}"
    message = f"{path}: no column for {missing}{form} among {listed(found)}"
    named_so = f"columns: {{{', '.join(pairs)}}} (on the command line --columns {option})"
    return f"{message}; did you mean {named_so}?" if len(near) == len(fields) else f"{message}; name them by {named_so}"


WORDS = {
    "arrival_s": ("created", "arriv", "start", "time", "date", "received", "ts"),
    "prompt_tokens": ("prompt", "input", "in_", "context", "prefill", "request"),
    "output_tokens": ("completion", "output", "out_", "generat", "decode", "response"),
}
"""Parts of names by which people call the columns of a trace, the clearest first."""


def suggested(chosen: Format, fields: Collection[str], found: Collection[str]) -> dict[str, str]:
    """For each field the column that most likely holds it, where one does; no column twice."""
    taken: dict[str, str] = {}
    for field in fields:
        left = sorted(set(found) - set(taken.values()))
        scores = {name: _score(name, field, chosen) for name in left}
        best = max(scores, key=lambda name: scores[name], default=None)
        if best is not None and scores[best] > 0:
            taken[field] = best
    return taken


def _score(name: str, field: str, chosen: Format) -> float:
    known = [source.column for source in chosen.columns.get(field, ())]
    leaf = name.rpartition(".")[2]
    alike = max((SequenceMatcher(None, leaf, other).ratio() for other in known), default=0.0)
    hit = next((place for place, word in enumerate(WORDS.get(field, ())) if word in leaf), None)
    if hit is not None:
        return max(alike, 1.0 - 0.05 * hit)
    return alike if alike > CLOSE else 0.0
