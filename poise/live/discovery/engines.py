"""The set of engines as a list or a file gives it, and what changed since the last look.

A file is a list of URLs, one a line; or YAML or JSON: a list of mappings with `url` and perhaps `name` and `labels`, or
with `targets` and `labels` as Prometheus' file_sd has them. A file that is empty, half-written or broken changes
nothing: the last good one is used until a whole one is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from poise.core.errors import UserError
from poise.live.discovery.address import Engine, engine, forbidden
from poise.live.discovery.rows import ConfigRow, parse_rows, read_text

FIELDS: Final = ("name", "url", "labels")
TARGETS: Final = ("targets", "labels")

Engines = dict[str, Engine]
"""Engines by their names."""


class Diff(NamedTuple):
    """What changed, in order of names; `changed` has the engines as they are now."""

    added: tuple[Engine, ...] = ()
    removed: tuple[Engine, ...] = ()
    changed: tuple[Engine, ...] = ()


def diff(before: Mapping[str, Engine], after: Mapping[str, Engine]) -> Diff:
    """The changes from one set of engines to another."""
    both = sorted(before.keys() & after.keys())
    return Diff(
        tuple(after[name] for name in sorted(after.keys() - before.keys())),
        tuple(before[name] for name in sorted(before.keys() - after.keys())),
        tuple(after[name] for name in both if after[name] != before[name]),
    )


def named(engines: Iterable[tuple[str, Engine]]) -> Engines:
    """Engines by name; UserError, beginning with its file and line, for a name or place that is there twice."""
    found: Engines = {}
    places: dict[tuple[str, int, str], str] = {}
    for where, each in engines:
        if each.name in found:
            raise UserError(f"{where}: the name {each.name!r} is there twice; give every engine a name of its own")
        place = (each.host, each.port, each.path)
        if place in places:
            raise UserError(f"{where}: {each.name!r} is where {places[place]!r} is; list every engine once")
        found[each.name] = each
        places[place] = each.name
    return found


def parse(text: str, name: str, link_local: bool = False) -> Engines:
    """The engines of a file called `name` in errors; UserError where it is empty or broken."""
    lines = [(place, line.strip()) for place, line in enumerate(text.splitlines(), 1)]
    urls = [(f"{name}:{place}", line) for place, line in lines if line and not line.startswith("#")]
    if urls and all(line.startswith(("http://", "https://")) for _, line in urls):
        return named((where, engine(line, where, link_local=link_local)) for where, line in urls)
    rows = parse_rows(text, name, "engines")
    return named((row.where, each) for row in rows for each in _row(row, link_local))


def _row(row: ConfigRow, link_local: bool) -> list[Engine]:
    labels = _labels(row)
    if "targets" in row.fields:
        row.only(TARGETS)
        targets = row.fields["targets"]
        if not isinstance(targets, list) or not all(isinstance(each, str) for each in targets):
            raise row.error("targets is not a list of texts; write targets: ['HOST:PORT', …]")
        urls = [each if "://" in each else f"http://{each}" for each in targets]
        return [engine(url, row.where, link_local=link_local)._replace(labels=labels) for url in urls]
    row.only(FIELDS)
    return [engine(row.text("url"), row.where, row.text("name"), link_local)._replace(labels=labels)]


def _labels(row: ConfigRow) -> tuple[tuple[str, str], ...]:
    labels = row.fields.get("labels", {})
    if not isinstance(labels, dict):
        raise row.error(f"labels is {labels!r}; write a mapping of texts")
    return tuple(sorted((str(key), str(value)) for key, value in labels.items()))


class EngineFile:
    """A watched file of engines.

    A change is accepted when the file has been the same for two looks, so that half-written files are rarely read.
    """

    __slots__ = ("_file", "_link_local", "_read", "_seen", "engines", "problem")

    def __init__(self, file: Path, link_local: bool = False) -> None:
        self._file = file
        self._link_local = link_local
        self._seen = self._read = self._stamp()
        self.engines = parse(read_text(file), str(file), link_local)
        self.problem = ""

    def look(self) -> Diff:
        """What changed since the last look; `problem` says why a new file is not used, empty if it is."""
        stamp = self._stamp()
        settled, self._seen = stamp == self._seen, stamp
        if not settled or stamp == self._read:
            return Diff()
        self._read = stamp
        try:
            engines = parse(read_text(self._file), str(self._file), self._link_local)
        except UserError as error:
            self.problem = f"{error} (the engines of the last good file stay)"
            return Diff()
        self.problem = ""
        done, self.engines = diff(self.engines, engines), engines
        return done

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class EngineName:
    """A DNS name of which every address is an engine, such as a headless service of Kubernetes.

    grace: picoseconds for which the last known engines stay while the name has no address or cannot be resolved.
    """

    __slots__ = ("_last_at", "_link_local", "_of", "engines", "grace", "problem")

    def __init__(self, of: Engine, grace: int, at: int, link_local: bool = False) -> None:
        self._of = of
        self._link_local = link_local
        self._last_at = at
        self.grace = grace
        self.engines: Engines = {}
        self.problem = ""

    def resolved(self, addresses: Iterable[str], problem: str, at: int) -> Diff:
        """Take the result of a look-up: the addresses, or none and in `problem` why the look-up failed."""
        allowed = [each for each in addresses if self._link_local or not forbidden(each)]
        if allowed:
            self._last_at = at
            self.problem = ""
            engines = {each.name: each for each in map(self._at, sorted(set(allowed)))}
        else:
            self.problem = problem or f"{self._of.host} has no address that is allowed"
            engines = self.engines if at - self._last_at < self.grace else {}
        done, self.engines = diff(self.engines, engines), engines
        return done

    def _at(self, address: str) -> Engine:
        of = self._of
        shown = f"[{address}]" if ":" in address else address
        return of._replace(name=f"{shown}:{of.port}", host=address, server_name=of.host if of.tls else "")
