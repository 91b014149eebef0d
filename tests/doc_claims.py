"""The table of claims in docs/claims.md: `python -m tests.doc_claims` writes it from the committed results."""

from __future__ import annotations

from pathlib import Path

from poise.claims.find import claim, names
from poise.claims.record import measured

PAGE = Path(__file__).resolve().parents[1] / "docs" / "claims.md"
BEGIN, END = "<!-- claims -->\n", "<!-- end of claims -->"


def table() -> str:
    """The table as Markdown: what was measured, with the date and version that it was measured with."""
    lines = ["| system | published | verdict | measured | run time | by |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_row(name))} |" for name in names()]
    return "\n".join(lines) + "\n"


def _row(name: str) -> tuple[str, ...]:
    about, record = claim(name), measured(name)
    system = f"{about.system} (`{name}`)"
    if record is None:
        return system, about.headline, "not testable", about.untestable, "–", "–"
    criteria = record.findings.criteria
    met = f"{sum(each.met is True for each in criteria)} of {len(criteria)} criteria met"
    told = "<br>".join(f"{each.asks}: {each.measured}" for each in criteria if each.headline)
    by = f"{record.date}, Poise {record.poise}"
    return system, about.headline, f"**{record.verdict}**, {met}", told, f"{record.cpu_s:.0f} s", by


def written() -> str:
    """The table as the page has it."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
