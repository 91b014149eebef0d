"""Reads and checks a tournament file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from poise.experiment.tournament.contest import Contest
from poise.experiment.tournament.factor import Factor, alone
from poise.scenario.override import apply_override, parse_override
from poise.scenario.place import Path as DataPath
from poise.scenario.place import Places
from poise.scenario.read import Kind, read_yaml
from poise.scenario.tournament.factor import factor
from poise.scenario.tournament.schema import TournamentFile

At = TypeVar("At", int, str)

KIND = Kind("a tournament (examples/tournament.yaml is one)", "at least the sections factors and blocks", "factors:")


@dataclass(frozen=True, slots=True)
class TournamentQuestion:
    """A checked tournament. places: the lines of its values.  folder: that of the file."""

    file: TournamentFile
    factors: tuple[Factor, ...]
    places: Places
    folder: Path

    def names(self) -> list[tuple[str, ...]]:
        """The blocks: one name of each kind, in every combination."""
        return list(product(*self.file.blocks.values()))

    @property
    def contest(self) -> Contest:
        """The contest, without its world."""
        screen = self.file.screen
        return Contest(self.factors, tuple(self.names()), tuple(self.file.loads), screen.runs, screen.seed)

    def data(self, names: Sequence[str]) -> tuple[dict[str, Any], Places]:
        """The scenario of a block, the common part with what each of its names adds, and the lines of its values."""
        layers = [("scenario",), *(("blocks", kind, name) for kind, name in zip(self.file.blocks, names, strict=True))]
        data: dict[str, Any] = {}
        places = Places(f"{self.places.name} (block {' / '.join(names)})")
        for layer in layers:
            part: Any = self.file.scenario if len(layer) == 1 else self.file.blocks[layer[1]][layer[2]]
            data = _merged(data, part)
            places.lines |= _below(layer, self.places.lines)
            places.overrides |= _below(layer, self.places.overrides)
        return data, places


def _below(layer: DataPath, known: Mapping[DataPath, At]) -> dict[DataPath, At]:
    """What stands below `layer`, by its path from there."""
    return {path[len(layer) :]: at for path, at in known.items() if path[: len(layer)] == layer}


def is_tournament(path: Path) -> bool:
    """Whether the file is a tournament: it has factors at its top."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return False  # whoever reads it as a scenario says why
    return any(line.startswith("factors:") for line in lines)


def read(path: Path, overrides: Sequence[str] = ()) -> TournamentQuestion:
    """Read the tournament in `path`, changed by `overrides`; ScenarioError, one line, for the first mistake."""
    from poise.scenario.explain import checked

    data, places = read_yaml(path, str(path), KIND)
    for each in overrides:
        apply_override(data, places, *parse_override(each))
    file = checked(TournamentFile, data, places)
    question = TournamentQuestion(file, tuple(_factors(file, places)), places, path.parent)
    _check(question)
    return question


def _factors(file: TournamentFile, places: Places) -> list[Factor]:
    found = []
    for name, values in file.factors.items():
        if name.split(".")[0] in ("workload", "slo", "compare"):
            raise places.error(("factors", name), "is what all combinations meet alike; make it a kind of block")
        try:
            found.append(factor(name, values))
        except ValueError as error:
            raise places.error(("factors", name), str(error)) from None
    return found


def _check(question: TournamentQuestion) -> None:
    loads = question.file.loads
    if len(set(loads)) < len(loads):
        raise question.places.error(("loads",), f"{loads} names a load twice; give each load once")
    if "policies" in question.file.scenario and set(question.file.scenario["policies"]) & set(question.file.factors):
        name = next(name for name in question.file.scenario["policies"] if name in question.file.factors)
        raise question.places.error(("scenario", "policies", name), "is a factor too; remove one of the two")
    least = len(question.names()) * len(loads) * len(alone(question.factors))
    if question.file.screen.runs < least:
        text = f"{question.file.screen.runs} is less than the {least:,} that change one factor at a time in every block"
        raise question.places.error(("screen", "runs"), f"{text}; give more runs, or fewer levels, blocks or loads")


def _merged(below: Any, above: Any) -> Any:
    """`above` laid over `below`: mappings name by name, everything else as a whole."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}
