"""A table in a page of docs/ that a script writes, between two marks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


@dataclass(frozen=True)
class Marked:
    """The place between `<!-- name -->` and `<!-- end of name -->` in a page."""

    page: str
    name: str

    @property
    def _parts(self) -> tuple[str, str, str]:
        """What stands before the table (with its mark), the table, and what stands behind (with its mark)."""
        begin, end = f"<!-- {self.name} -->\n", f"<!-- end of {self.name} -->"
        before, mark, rest = (DOCS / self.page).read_text(encoding="utf-8").partition(begin)
        table, end_mark, behind = rest.partition(end)
        return before + mark, table, end_mark + behind

    def read(self) -> str:
        """The table as the page has it."""
        return self._parts[1]

    def write(self, table: str) -> None:
        """Put a table in its place."""
        before, _, behind = self._parts
        (DOCS / self.page).write_text(before + table + behind, encoding="utf-8")
