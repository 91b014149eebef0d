"""What an experiment is given: how long it may be, and where recorded traces are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.claims.claim import Claim, Source
from poise.core.errors import UserError

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison
    from poise.scenario.python import Result
    from poise.workload import Workload

Meter = Callable[[str, int, int], None]
"""Told now and then what is running, how much of it is done and how much there is."""

SHARE = 10
"""A quick run has one in so many of the requests."""


@dataclass(slots=True)
class Bench:
    """quick: the same experiment with a tenth of the requests and two seeds.  data: the folder of traces, or None.

    claim: whose experiment it is.  times: how many times as many seeds as it begins with.
    """

    claim: Claim
    quick: bool = False
    data: Path | None = None
    progress: Meter | None = None
    times: int = 1
    _found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """What `find` gives, found once for a name of the claim: several criteria may ask about one experiment."""
        if name not in self._found:
            self._found[name] = find()
        return self._found[name]

    def requests(self, full: int) -> int:
        """How many requests to simulate where the whole experiment has `full`."""
        return full // SHARE if self.quick else full

    def duration(self, full: float) -> float:
        """How many seconds to simulate where the whole experiment has `full`."""
        return full / 2 if self.quick else full

    def seeds(self, full: int | None = None) -> int:
        """How many seeds where the whole experiment begins with `full` (default: with what the claim says)."""
        begun = self.claim.rounds[0] if full is None else full
        return min(begun, 2) if self.quick else begun * self.times

    def simulate(self, *args: Any, **options: Any) -> Result:
        """`poise.simulate`; a run that the user stops ends the experiment."""
        from poise.scenario.python import simulate

        result = simulate(*args, **options)
        if result.run.interrupted:
            raise KeyboardInterrupt
        return result

    def compare(self, label: str, *args: Any, **options: Any) -> Comparison:
        """`poise.compare`, with its progress told under `label`; one that the user stops ends the experiment."""
        from poise.scenario.compare.python import compare

        def report(_: str, done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(label, done, total)

        comparison = compare(*args, **options, progress=report)
        if comparison.interrupted:
            raise KeyboardInterrupt
        return comparison

    def file(self, at: int = 0) -> Path:
        """The file of the claim's data at a place; UserError where it is not."""
        return find_data(self.claim.data[at], self.data)

    def trace(self) -> Workload:
        """The claim's first recorded trace, packed or not, in its own folder or in the one given."""
        from poise import workload

        return workload.read(self.file())


def folder(option: Path | None) -> Path | None:
    """The folder of data: that of the option, else that of the environment."""
    named = os.environ.get("POISE_DATA", "")
    return option or (Path(named) if named else None)


def find_data(source: Source, data: Path | None) -> Path:
    """Where the file of a source lies; UserError that says which, where it is published and how to name its folder."""
    place = Path(source.file)
    names = [place, place.with_suffix("")] if place.suffix == ".gz" else [place, Path(f"{place}.gz")]
    for name in names:
        for path in (name, Path(name.name)):
            if data is not None and (data / path).is_file():
                return data / path
    where = f"is not in {data}" if data is not None else "is needed, and no folder of data is named"
    raise UserError(
        f"{source.file}: {where}; it is published at {source.published}: give the folder that has it by --data DIR, or "
        "by the environment variable POISE_DATA"
    )
