"""The folder of a comparison (see `poise.experiment.store`), and the format of its cells.

FOLDER/scenario.resolved.yaml     what was asked; read again by `poise compare`
FOLDER/result.json, report.html   written when all is done, or when the user stops
FOLDER/cells/…                    figures in cell.json; curves, and the run cut into blocks, in cell.npz; a row for each
                                  request, where asked for, in requests.parquet
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.experiment import store
from poise.scenario.compare.cell import Cell
from poise.scenario.compare.study import Place

ROWS = "requests.parquet"


@dataclass(frozen=True, slots=True)
class Store(store.Store):
    """A store of simulations."""

    def save(self, cell: Cell) -> None:
        """Write a cell."""
        fields = {
            **cell.place._asdict(),
            "backlog_growth": cell.growth,
            "backlog_growth_half": cell.growth_half,
            "refusals": cell.refusals,
            "wall_s": cell.wall_s,
            "cpu_s": cell.cpu_s,
            "independent": cell.independent,
            "figures": cell.figures,
        }
        self.write(cell.place, fields, cell.arrays, {} if cell.rows is None else {ROWS: cell.rows})

    def find(self, place: Place, *, requests: bool = False) -> Cell | None:
        """The cell, if it is there whole, with its rows where `requests` are wanted; see `Store.read`."""
        kept = self.read(place, ROWS if requests else "")
        if kept is None:
            return None
        fields = kept.fields
        return Cell(
            place, fields["figures"], fields["backlog_growth"], fields["refusals"], fields["wall_s"], fields["cpu_s"],
            kept.arrays, fields.get("independent", 1.0), fields.get("backlog_growth_half"),
        )  # fmt: skip
