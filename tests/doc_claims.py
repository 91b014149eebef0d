"""docs/systems.md and a page with its pictures for each system that is built: `python -m tests.doc_claims`."""

from __future__ import annotations

from collections.abc import Iterator

from poise.claims.claim import Claim, Outcome
from poise.claims.find import claim, names
from poise.claims.listed import TIERS, Listed, by_group, how, listed
from poise.claims.picture import picture
from poise.claims.record import Record, measured
from poise.claims.show import MET, figures, lacks, since, standing
from tests.doc_table import DOCS, Marked

PLACE = Marked("systems.md", "systems")
FOLDER = DOCS / "systems"
"""A page for each system that is built, and a picture for each claim that has a curve: the first one."""


def table() -> str:
    """All systems as Markdown: those that are built in a table for each group, and the others by name."""
    return "\n".join(line for group, some in by_group(listed()).items() for line in _group(group, some)) + "\n"


def files() -> dict[str, str]:
    """Every page and picture by the name of its file."""
    pages = {f"{each.name}.md": "\n".join(_page(each)) + "\n" for each in listed() if each.built}
    drawn = {f"{name}.svg": _drawn(measured(name)) for name in names()}
    return pages | {name: svg for name, svg in drawn.items() if svg is not None}


def _drawn(record: Record | None) -> str | None:
    curves = record.findings.curves if record else ()
    return picture(curves[0]) if curves else None


def _group(group: str, some: list[Listed]) -> Iterator[str]:
    built = [each for each in some if each.built]
    yield from (f"## {group.capitalize()}", "")
    if built:
        yield from ("| system | arXiv | stands for it | standing |", "|---|---|---|---|")
        for each in built:
            link = f"[{each.system}](systems/{each.name}.md)"
            yield f"| {link} | {each.arxiv or '–'} | {each.slot} {', '.join(map(_code, each.stands))} | {_met(each)} |"
        yield ""
    left = [each for each in some if not each.built]
    if bare := [_titled(each) for each in left if not each.why]:
        yield from (f"Not built: {', '.join(bare)}.", "")
    for each in left:
        if each.why:
            yield from (f"Not built: {_titled(each)}: {each.why}.", "")


def _titled(entry: Listed) -> str:
    return f"{entry.system} ({entry.arxiv})" if entry.arxiv else entry.system


def _code(text: str) -> str:
    return f"`{text}`"


def _met(entry: Listed) -> str:
    """What became of it, with how many criteria are met."""
    kept = [record for record in map(measured, entry.claims) if record]
    met = sum(each.met is True for record in kept for each in record.outcomes)
    criteria = sum(len(record.outcomes) for record in kept)
    return f"{standing(entry)}, {met} of {criteria}" if criteria else standing(entry)


def _page(entry: Listed) -> Iterator[str]:
    """One system: what was published, what was done here, what came out, and its pictures."""
    yield from (f"# {entry.system}", "")
    where = [f"[arXiv {entry.arxiv}](https://arxiv.org/abs/{entry.arxiv})"] if entry.arxiv else []
    tier = [f"tier {entry.tier}: {TIERS[entry.tier]}"] if entry.tier else ["beside the list"]
    yield f"{entry.title}. {'; '.join([*where, entry.group, *tier])}. [All systems](../systems.md)"
    if not entry.claims:
        stands = ", ".join(map(_code, entry.stands))
        yield from ("", f"Stands for it: {entry.slot} {stands}; {how(entry)}. Its claim is not made yet.")
    for name in entry.claims:
        yield from ("", f"## `poise claim {name}`" if claim(name).criteria else f"## {claim(name).system}", "")
        yield from _claim(claim(name), measured(name), name)


def _claim(about: Claim, record: Record | None, name: str) -> Iterator[str]:
    yield from ((about.does.strip(), "") if about.does else ())
    yield from (("```console", *(f"$ {line}" for line in about.use), "```", "") if about.use else ())
    facts = {
        "Paper": f"{about.paper}; known by its {about.paper.trust}",
        "Published": about.published,
        "Conditions": about.conditions,
        "Here": about.here,
        "Lacking": about.lacking,
        "Stands for it": f"{about.slot} {', '.join(map(_code, about.policies))}",
    }
    yield from (f"- **{title}:** {_sentence(expected)}" for title, expected in facts.items() if expected)
    yield ""
    if record is None:
        yield "**Not tested here.**"
        return
    yield f"**{_sentence(record.verdict + lacks(about, record))}**"
    yield f"Measured {record.date} with Poise {record.poise} in {record.cpu_s:.0f} s of one core."
    yield from ("", "| criterion | | paper | measured |", "|---|---|---|---|")
    yield from (_row(each, about) for each in record.outcomes)
    yield ""
    yield from (f"- Note: {_sentence(expected)} Here: {_sentence(came)}" for expected, came in record.notes.items())
    if _drawn(record) is not None:
        curve = record.findings.curves[0]
        yield from ("", f"![{curve.title}]({name}.svg)", "")
        head, rows = figures(curve)
        yield f"| {' | '.join(head)} |"
        yield f"|{'---|' * len(head)}"
        yield from (f"| {' | '.join(row)} |" for row in rows)


def _row(each: Outcome, about: Claim) -> str:
    more = [f"Why: {each.why}" if each.why else "", since(each, about).capitalize()]
    asks = ". ".join([each.criterion.asks, *filter(None, more)])
    word = f"**{MET[each.met]}**" if each.headline else MET[each.met]
    return f"| {asks} | {word} | {each.criterion.paper} | {each.measured} |".replace("\n", " ")


def _sentence(text: str) -> str:
    first = text.split()[0]
    return f"{text[0].upper() + text[1:] if first.islower() else text}."


def write() -> None:
    """Write the list, the pages and the pictures, and take away those of systems that are gone."""
    PLACE.write(table())
    FOLDER.mkdir(exist_ok=True)
    wanted = files()
    for file in FOLDER.iterdir():
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
