"""The folder of an experiment: each cell is written whole as it ends, and found again by its inputs.

FOLDER/cells/load-1/load.json                       notes on a setting, once
FOLDER/cells/load-1/prefix_cache/seed-0/cell.json   figures; its presence says that the cell is whole
FOLDER/cells/load-1/prefix_cache/seed-0/cell.npz    arrays, where there are any
FOLDER/cells/load-1/prefix_cache/seed-0/…           further files of the cell
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

from poise.core.errors import UserError
from poise.experiment.case import Key
from poise.report.files import file_name, replacing, to_json

CELL = "cell.json"
CELLS = f"cells/*/*/*/{CELL}"
"""The subfolder of the cells."""


class Kept(NamedTuple):
    """A cell as it was written."""

    fields: dict[str, Any]
    arrays: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """folder: where all is.  prints: for each case, a digest of all that its figures depend on but setting and seed.

    renews: a cell of other conditions counts as not there, and is written over, instead of being an error.
    axis: what the settings are.
    """

    folder: Path
    prints: Mapping[str, str]
    renews: bool = False
    axis: str = "load"

    def home(self, place: Key) -> Path:
        """The folder of a cell."""
        at, case, seed = place
        return self._setting(at) / _folder(case) / f"seed-{seed}"

    def _setting(self, at: float) -> Path:
        return self.folder / "cells" / f"{self.axis}-{at:.12g}"

    def finished(self) -> int:
        """The number of cells, of any experiment."""
        return sum(1 for _ in self.folder.glob(CELLS))

    def write(
        self,
        place: Key,
        fields: Mapping[str, Any],
        arrays: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write a cell; its JSON last."""
        home = self.home(place)
        if arrays:
            import numpy as np

            with replacing(home / "cell.npz") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
        for name, content in (files or {}).items():
            with replacing(home / name) as file:
                file.write(content)
        with replacing(home / CELL) as file:
            file.write(to_json({"print": self.prints[place[1]], **fields}).encode())

    def read(self, place: Key, beside: str = "") -> Kept | None:
        """The cell, if it is there whole, and the further file `beside` where one is named.

        UserError when it belongs to other conditions, unless the store renews such cells.
        """
        home = self.home(place)
        fields = _read(home / CELL)
        if fields is None or (beside and not (home / beside).exists()):
            return None
        case = place[1]
        if fields["print"] != self.prints[case]:
            if self.renews:
                return None
            raise UserError(
                f"{home}: is a cell of another {case} (its parameters or its code changed); "
                "give another --out, or remove that folder"
            )
        return Kept(fields, _arrays(home / "cell.npz"))

    def write_notes(self, at: float, fields: dict[str, Any]) -> None:
        """Write the notes on a setting."""
        with replacing(self._setting(at) / f"{self.axis}.json") as file:
            file.write(to_json(fields).encode())

    def notes(self, at: float) -> dict[str, Any] | None:
        """The notes on a setting, if they were written."""
        return _read(self._setting(at) / f"{self.axis}.json")


def check_free(folder: Path, there: int, *, resume: bool, what: str = "comparison") -> None:
    """UserError where a folder holds cells that are not to be used."""
    if there and not resume:
        raise UserError(
            f"--out {folder}: holds {there} cells of an earlier {what}; add --resume to go on with it, or name "
            "another folder"
        )


def check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """UserError naming the first input that differs from those of the cells in a folder."""
    old, new = flat(before), flat(now)
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            raise UserError(
                f"--out {folder}: its cells are of another scenario ({name} was {old.get(name)!r} and is "
                f"{new.get(name)!r}); name another folder, or change it back"
            )


def flat(tree: Any, above: str = "") -> dict[str, Any]:
    """Nested mappings and lists as one mapping with dotted names."""
    if not isinstance(tree, Mapping | list):
        return {above: tree}
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    found: dict[str, Any] = {}
    for name, value in items:
        found |= flat(value, f"{above}.{name}" if above else str(name))
    return found


def digest(fields: Any) -> str:
    """A digest of plain data."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _folder(case: str) -> str:
    """A case's name as a folder name; where characters were changed or left out, a digest keeps it distinct."""
    name = file_name(case)[:64]
    return name if name == case else f"{name}-{digest(case)[:8]}"


def _arrays(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    import numpy as np

    try:
        with np.load(file) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise _broken(file, error) from None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _broken(file, error) from None
    return fields


def _broken(file: Path, error: Exception) -> UserError:
    return UserError(f"{file}: cannot be read ({error}); remove its folder, and it is simulated again")
