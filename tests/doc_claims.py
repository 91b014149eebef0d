"""The table of claims in docs/claims.md: `python -m tests.doc_claims` writes it from the committed results."""

from __future__ import annotations

from poise.claims.find import claim, names
from poise.claims.record import measured
from tests.doc_table import Marked

PLACE = Marked("claims.md", "claims")


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


if __name__ == "__main__":
    PLACE.write(table())
