"""Prices of devices: the user's price file, or the one shipped basis that covers them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from poise.catalogue.devices import device, nearest
from poise.catalogue.prices import basis_for
from poise.core.errors import UserError
from poise.scenario.place import at_home
from poise.scenario.read import Kind, read_text, read_yaml

MOST = 1_000_000
FILE = Kind("a price file", "a price for each device, as in `H100: 2.5`", "H100: 2.5")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one device, in dollars per hour.

    spot: its price while it may be reclaimed; None where there is no such offer.  reclaims_per_hour: how often a spot
    device is reclaimed.  limit: how many can be had; None for any number.
    """

    per_hour: float
    spot: float | None = None
    reclaims_per_hour: float = 0.0
    limit: int | None = None


FIELDS = ("price", *(each.name for each in fields(Price)[1:]))


def prices_of(devices: Iterable[str], file: Path | None) -> tuple[dict[str, Price], str]:
    """The prices of `devices` by catalogue name, and a text for their basis: the file's name or the shipped basis.

    A shipped basis has no spot offers, because no source states how often they are reclaimed. UserError where a device
    has no price.
    """
    names = list(dict.fromkeys(device(name).name for name in devices))
    if file is None:
        basis = basis_for(names)
        return {name: Price(device(name, basis).price_per_hour) for name in names}, basis
    prices = read_prices(file)
    lacking = [name for name in names if name not in prices]
    if lacking:
        raise UserError(f"{file}: has no price for {', '.join(lacking)}; add each, as in `{lacking[0]}: 2.5`")
    return {name: prices[name] for name in names}, file.name


def read_prices(path: Path) -> dict[str, Price]:
    """The prices in a YAML, JSON, CSV or JSONL file, by the device's catalogue name.

    YAML and JSON map a device to its price or to a mapping of `price`, `spot`, `reclaims_per_hour` and `limit`; CSV has
    those columns and `device`, an empty cell being nothing; JSONL has one such object a line. UserError names file,
    line, field, value, rule and cure.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise UserError(f"{path}: is of no kind that is read; name it {', '.join(_READERS)} after what it holds")
    prices: dict[str, Price] = {}
    for entry in read(path):
        name, price = _device(entry), _price(entry)
        if prices.setdefault(name, price) != price:
            raise entry.error(f"{entry.device}: is {name}, which has another price above; keep one of them")
    if not prices:
        raise UserError(f"{path}: is empty; give {FILE.least}")
    return prices


class _Entry(NamedTuple):
    """A file's entry for one device. where: file and line, as errors begin."""

    where: str
    device: str
    fields: Mapping[str, Any]

    def error(self, text: str) -> UserError:
        return UserError(f"{self.where}: {text}")

    def wrong(self, name: str, rule: str) -> UserError:
        """The error of the field `name` that breaks `rule`."""
        return self.error(f"{self.device}: {name} is {self.fields[name]!r}; it must be {rule}")


def _device(entry: _Entry) -> str:
    """The catalogue's name of the device."""
    try:
        return device(entry.device).name
    except UserError:
        near = ", ".join(nearest(entry.device))
        raise entry.error(f"device {entry.device!r} is not built in; nearest are {near}; correct the name") from None


def _price(entry: _Entry) -> Price:
    unknown = [name for name in entry.fields if name not in FIELDS]
    if unknown:
        raise entry.error(f"{entry.device}: there is no field {unknown[0]!r}; give {', '.join(FIELDS)}")
    per_hour, spot, reclaims = (_number(entry, name) for name in ("price", "spot", "reclaims_per_hour"))
    if per_hour is None:
        raise entry.error(f"{entry.device}: has no price; give dollars per device-hour, as in `{FILE.example}`")
    if spot is not None and reclaims is None:
        raise entry.error(f"{entry.device}: spot stands without reclaims_per_hour; give both (0 if never taken back)")
    if spot is None and reclaims is not None:
        raise entry.error(f"{entry.device}: reclaims_per_hour stands without spot; give both or remove it")
    return Price(per_hour, spot, reclaims or 0.0, _limit(entry))


def _number(entry: _Entry, name: str) -> float | None:
    """A number from 0 to `MOST`; None where it is not given."""
    value = entry.fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise entry.wrong(name, f"a number from 0 to {MOST:,}, as in 2.5")
    return float(value)


def _limit(entry: _Entry) -> int | None:
    """A whole number from 0; None where it is not given."""
    number = _number(entry, "limit")
    if number is not None and number != int(number):
        raise entry.wrong("limit", "a whole number from 0, as in 16")
    return None if number is None else int(number)


def _yaml(path: Path) -> Iterator[_Entry]:
    data, places = read_yaml(at_home(path), str(path), FILE)
    for name, given in data.items():
        yield _Entry(places.of((name,)), name, given if isinstance(given, dict) else {"price": given})


def _csv(path: Path) -> Iterator[_Entry]:
    header: list[str] = []
    for where, cells in _records(path):
        if not header:
            header = _header(where, cells)
            continue
        if len(cells) != len(header):
            raise UserError(f"{where}: has {len(cells)} cells and the header {len(header)}; give as many")
        row = dict(zip(header, cells, strict=True))
        yield _Entry(where, row.pop("device"), {name: _cell(cell) for name, cell in row.items() if cell})


def _records(path: Path) -> Iterator[tuple[str, list[str]]]:
    """File and line, and the stripped cells, of each record of a CSV file that is not empty."""
    table = csv.reader(io.StringIO(read_text(at_home(path), str(path), FILE)), strict=True)
    try:
        for record in table:
            cells = [cell.strip() for cell in record]
            if any(cells):
                yield f"{path}:{table.line_num}", cells
    except csv.Error as error:
        raise UserError(f"{path}:{table.line_num}: is not valid CSV ({error}); check its quotes") from None


def _header(where: str, names: list[str]) -> list[str]:
    """The columns of a CSV file; all of them are known and given once."""
    if len(set(names)) < len(names) or not {"device", "price"} <= set(names) <= {"device", *FIELDS}:
        rule = f"must be device, price and, where needed, {', '.join(FIELDS[1:])}, each once"
        raise UserError(f"{where}: the columns are {', '.join(names)}; they {rule}")
    return names


def _cell(text: str) -> float | str:
    """The number in a cell; anything else stays text, for the error."""
    try:
        return float(text)
    except ValueError:
        return text


def _jsonl(path: Path) -> Iterator[_Entry]:
    for number, line in enumerate(read_text(at_home(path), str(path), FILE).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: is not valid JSON ({error}); check quotes, commas and braces there") from None
        if not isinstance(row, dict) or not isinstance(row.get("device"), str):
            raise UserError(f'{where}: names no device; write an object such as {{"device": "H100", "price": 2.5}}')
        yield _Entry(where, row.pop("device"), row)


_READERS: dict[str, Callable[[Path], Iterator[_Entry]]] = {
    ".yaml": _yaml, ".yml": _yaml, ".json": _yaml, ".csv": _csv, ".jsonl": _jsonl,
}  # fmt: skip
