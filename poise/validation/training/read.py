"""Tables of measured runs, plain or gzipped, line by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from poise.core.errors import PoiseError, TraceError
from poise.validation.training.run import Run
from poise.workload.readers.inflate import gunzip

Row = dict[str, str]


def runs_of(path: Path, make: Callable[[str, Row], Sequence[Run]]) -> tuple[list[Run], list[str]]:
    """What `make` reads of each row, and a line for each row that cannot be read."""
    runs: list[Run] = []
    faults: list[str] = []
    for place, row in rows_of(path):
        try:
            runs += make(place, row)
        except KeyError as missing:
            faults.append(f"{place}: column {missing} is missing")
        except (PoiseError, ValueError) as error:
            faults.append(f"{place}: {error}")
    return runs, faults


def rows_of(path: Path) -> Iterator[tuple[str, Row]]:
    """File and line, and the fields, of each row; nothing where no file is, TraceError where it is broken."""
    if not path.is_file():
        return
    try:
        raw = path.read_bytes()
        text = (gunzip(raw, path) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read ({error}); give a CSV table of runs") from error
    for line, fields in enumerate(csv.DictReader(io.StringIO(text)), 2):
        yield f"{path.name}: line {line}", {name: (value or "").strip() for name, value in fields.items() if name}


def positive(name: str, text: str) -> float:
    """A number above 0; ValueError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} is {text!r}; a number above 0 is needed")
    return value
