"""The folder of a comparison: each cell is written whole as it ends, and found again by what it depends on.

FOLDER/scenario.resolved.yaml     what was asked; read again by `poise compare`
FOLDER/result.json, report.html   written when all is done, or when the user stops
FOLDER/cells/load-1/load.json     the requests of a load: how many, how fast, how long
FOLDER/cells/load-1/prefix_cache/seed-0/cell.json        figures; its presence says that the cell is whole
FOLDER/cells/load-1/prefix_cache/seed-0/cell.npz         curves, and the run cut into blocks
FOLDER/cells/load-1/prefix_cache/seed-0/requests.parquet a row for each request, where asked for
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from poise.core.errors import UserError
from poise.report.files import replacing
from poise.scenario.compare.cell import Cell
from poise.scenario.compare.study import Place
from poise.scenario.write import file_name, to_json


@dataclass(frozen=True, slots=True)
class Store:
    """folder: where all is.  prints: for each policy, a digest of all that its figures depend on but load and seed.

    renews: a cell of another scenario or policy counts as not there, and is written over, instead of being an error.
    """

    folder: Path
    prints: Mapping[str, str]
    renews: bool = False

    def home(self, place: Place) -> Path:
        """The folder of a cell."""
        return self._load(place.load) / _folder(place.policy) / f"seed-{place.seed}"

    def _load(self, load: float) -> Path:
        return self.folder / "cells" / f"load-{load:.12g}"

    def finished(self) -> int:
        """How many cells are there, of whatever comparison."""
        return sum(1 for _ in self.folder.glob("cells/*/*/*/cell.json"))

    def save(self, cell: Cell) -> None:
        """Write a cell; its JSON last."""
        import numpy as np

        home = self.home(cell.place)
        if cell.arrays:
            with replacing(home / "cell.npz") as file:
                np.savez_compressed(file, allow_pickle=False, **cell.arrays)
        told = {
            "print": self.prints[cell.place.policy],
            **cell.place._asdict(),
            "backlog_growth": cell.growth,
            "backlog_growth_half": cell.growth_half,
            "refusals": cell.refusals,
            "wall_s": cell.wall_s,
            "cpu_s": cell.cpu_s,
            "independent": cell.independent,
            "figures": cell.figures,
        }
        with replacing(home / "cell.json") as file:
            file.write(to_json(told).encode())

    def find(self, place: Place, *, requests: bool = False) -> Cell | None:
        """The cell, if it is there whole, and its rows too where `requests` are wanted.

        UserError when it belongs to another scenario or policy, unless the store renews such cells.
        """
        home = self.home(place)
        told = _read(home / "cell.json")
        if told is None or (requests and not (home / "requests.parquet").exists()):
            return None
        if told["print"] != self.prints[place.policy]:
            if self.renews:
                return None
            raise UserError(
                f"{home}: is a cell of another {place.policy} (its parameters or its code changed); "
                "give another --out, or remove that folder"
            )
        return Cell(
            place, told["figures"], told["backlog_growth"], told["refusals"], told["wall_s"], told["cpu_s"],
            _arrays(home / "cell.npz"), told.get("independent", 1.0), told.get("backlog_growth_half"),
        )  # fmt: skip

    def save_load(self, load: float, told: dict[str, Any]) -> None:
        """Write what the requests of a load are."""
        with replacing(self._load(load) / "load.json") as file:
            file.write(to_json(told).encode())

    def find_load(self, load: float) -> dict[str, Any] | None:
        """What the requests of a load are, if it was written."""
        return _read(self._load(load) / "load.json")


def _folder(policy: str) -> str:
    """A policy's name as that of a folder; where characters were changed or left out, a digest keeps it distinct."""
    name = file_name(policy)[:64]
    return name if name == policy else f"{name}-{digest(policy)[:8]}"


def digest(told: Any) -> str:
    """A digest of plain data."""
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _arrays(file: Path) -> dict[str, Any]:
    import numpy as np

    if not file.exists():
        return {}
    try:
        with np.load(file) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise _broken(file, error) from None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _broken(file, error) from None
    return told


def _broken(file: Path, error: Exception) -> UserError:
    return UserError(f"{file}: cannot be read ({error}); remove its folder, and it is simulated again")
