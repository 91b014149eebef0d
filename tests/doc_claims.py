"""docs/systems.md and its pictures: `python -m tests.doc_claims` writes them from the committed results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poise.claims.claim import Claim, Criterion
from poise.claims.find import claim, names
from poise.claims.groups import by_group, group_of
from poise.claims.picture import picture
from poise.claims.record import Record, measured
from poise.claims.show import MET
from tests.doc_table import DOCS, Marked

PLACE = Marked("systems.md", "systems")
PICTURES = DOCS / "systems"
"""A picture for each system that has a curve: the first one."""


def table() -> str:
    """All systems as Markdown: a table and the systems one by one for each group."""
    groups = by_group((name, group_of(name, claim(name))) for name in names())
    return "\n".join(line for group, some in groups.items() for line in _group(group, some)) + "\n"


def pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    found = {name: _drawn(measured(name)) for name in names()}
    return {f"{name}.svg": drawn for name, drawn in found.items() if drawn is not None}


def _drawn(record: Record | None) -> str | None:
    curves = record.findings.curves if record else ()
    return picture(curves[0]) if curves else None


def _group(group: str, some: Sequence[str]) -> Iterator[str]:
    yield from (f"## {group.capitalize()}", "")
    yield from ("| system | plug point | published | verdict | known by |", "|---|---|---|---|---|")
    for name in some:
        about, record = claim(name), measured(name)
        cells = (_link(about), about.slot, about.headline, _verdict(record), about.trust)
        yield f"| {' | '.join(cells)} |"
    yield ""
    for name in some:
        yield from _system(name, claim(name), measured(name))


def _link(about: Claim) -> str:
    kept = "".join(character for character in about.system if character.isalnum() or character in " -_")
    return f"[{about.system}](#{kept.lower().replace(' ', '-')})"


def _verdict(record: Record | None) -> str:
    if record is None:
        return "not testable"
    criteria = record.findings.criteria
    return f"{record.verdict}, {sum(each.met is True for each in criteria)} of {len(criteria)}"


def _system(name: str, about: Claim, record: Record | None) -> Iterator[str]:
    """One system: what was published, what was done here, what came out, and its picture."""
    yield from (f"### {about.system}", "")
    yield f"`{name}`: {about.paper}, {about.year}. {_sentence(about.conditions)}"
    if record is None:
        yield from (f"Not testable: {about.untestable}.", "")
        return
    yield from (f"Here: {_sentence(about.here)}", "")
    criteria = record.findings.criteria
    shown = [each for each in criteria if each.headline or each.met is not True]
    yield from (_criterion(each) for each in shown)
    rest = len(criteria) - len(shown)
    met = f"{rest} other {'criterion is' if rest == 1 else 'criteria are'} met; " if rest else ""
    yield from ("", f"{met}measured {record.date} with Poise {record.poise} in {record.cpu_s:.0f} s of one core.", "")
    if _drawn(record) is not None:
        yield from (f"![{record.findings.curves[0].title}](systems/{name}.svg)", "")


def _criterion(each: Criterion) -> str:
    why = f" Why: {each.why}." if each.why else ""
    return f"- {each.asks} ({MET[each.met]}). Paper: {each.paper}. Measured: {each.measured}.{why}"


def _sentence(told: str) -> str:
    first = told.split()[0]
    return f"{told[0].upper() + told[1:] if first.islower() else told}."


def write() -> None:
    """Write the page and its pictures, and take away those of systems that are gone."""
    PLACE.write(table())
    PICTURES.mkdir(exist_ok=True)
    drawn = pictures()
    for file in PICTURES.glob("*.svg"):
        if file.name not in drawn:
            file.unlink()
    for name, text in drawn.items():
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
