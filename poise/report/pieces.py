"""HTML building blocks of the pages: sections, cards, tiles, tables, folds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

Sense = Literal["", "good", "bad", "open"]
"""What a colour says: fine, wrong, undecided or nothing; text or a sign says it too."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure with its name. small: words below it.  meaning: its definition, shown on hover."""

    name: str
    value: str
    small: str = ""
    sense: Sense = ""
    meaning: str = ""


LONG = 28
"""Letters of a card's choice beyond which it is set smaller."""


def section(title: str, *parts: str, anchor: str, names: str = "") -> str:
    """A section with a heading that the contents lead to; `names` is for the script."""
    text = f' data-names="{escape(names)}"' if names else ""
    return f'<section id="{anchor}"{text}><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def card(kicker: str, pick: str, why: str, *parts: str, sense: Sense = "") -> str:
    """The answer of a page: a small line, the choice in large type, the sentence that gives the reason, and more."""
    large = f'<p class="pick{" long" * (len(pick) > LONG)}">{escape(pick)}</p>'
    return (
        f'<div class="card {sense}"><p class="kicker">{escape(kicker)}</p>{large}'
        f'<p class="why">{inline(why)}</p>{"".join(parts)}</div>'
    )


def lead(card: str, beside: str = "") -> str:
    """The first section, without a heading: the answer, and the drawing that shows it."""
    kind = "lead" if beside else "lead alone"
    return f'<section id="answer"><h2 class="hide">Answer</h2><div class="{kind}">{card}{beside}</div></section>'


def tiles(some: Iterable[Tile]) -> str:
    """Figures side by side, each with its name."""
    body = "".join(
        f'<div class="{each.sense}" title="{escape(each.meaning)}"><dt>{escape(each.name)}</dt><dd>{escape(each.value)}'
        f"{f'<small>{escape(each.small)}</small>' if each.small else ''}</dd></div>"
        for each in some
    )
    return f'<dl class="tiles">{body}</dl>'


@dataclass(frozen=True, slots=True)
class Gauge:
    """A limit and how much of it is used. used: a share of the limit.  words: both in numbers."""

    name: str
    used: float
    words: str


TIGHT = 0.9
"""Share of a limit beyond which little of it is left."""


def gauges(some: Iterable[Gauge]) -> str:
    """Bars that are full where a limit is reached; the words say the same."""
    parts = []
    for each in some:
        kind = "over" if each.used > 1 else "tight" if each.used > TIGHT else ""
        bar = f'<rect class="{kind}" width="{100 * min(max(each.used, 0.0), 1.0):.1f}" height="12"/>'
        parts.append(
            f'<div class="gauge"><span>{escape(each.name)}</span>'
            '<svg viewBox="0 0 100 12" preserveAspectRatio="none" role="img"'
            f' aria-label="{each.used:.0%} used">{bar}</svg><span>{escape(each.words)}</span></div>'
        )
    return "".join(parts)


def facts(some: Mapping[str, object]) -> str:
    """Names and their values, a line each."""
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>' for k, v in some.items())}</dl>"


def inline(text: str) -> str:
    """A sentence as markup; what stands between back-ticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def soft(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="soft">{inline(text)}</p>'


def listed(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{inline(line)}</li>' for line in lines)}</ul>"


def grid(figures: Sequence[str], *, pairs: bool = False) -> str:
    """Figures side by side: as many as the screen has room for, but two where three would leave one alone."""
    kind = " one" if len(figures) == 1 else " pairs" if pairs or len(figures) in (2, 4) else ""
    return f'<div class="grid{kind}">{"".join(figures)}</div>'


def split(left: str, right: str) -> str:
    """Two parts side by side, one below the other on a narrow screen."""
    return f'<div class="split"><div>{left}</div><div>{right}</div></div>'


def fitted(broad: str, narrow: str) -> str:
    """One drawing made for a wide screen and once more for a narrow one; only the one that fits is shown."""
    return f'<div class="broad">{broad}</div><div class="narrow">{narrow}</div>'


def fold(title: str, body: str, opened: bool = False) -> str:
    """A section that unfolds."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{body}</details>"


def fold_all(parts: Sequence[tuple[str, str]]) -> str:
    """Parts with their titles, the middle one open; a single one is not folded."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    return "".join(fold(name[:1].upper() + name[1:], body, at == middle) for at, (name, body) in enumerate(parts))


def table(head: str, body: str, *, label: str = "Table", sorts: bool = False, kind: str = "") -> str:
    """A table that scrolls within its own frame, so that the page never gets wider than the screen.

    head: the cells of the head.  body: its rows, or several bodies.  sorts: the script lets it be sorted and filtered.
    """
    rows = body if body.startswith("<tbody") else f"<tbody>{body}</tbody>"
    look = " ".join(filter(None, ("sorts" if sorts else "", kind)))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table class="{look}">'
        f"<thead><tr>{head}</tr></thead>{rows}</table></div>"
    )


def text_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, label: str = "Table", texts: Collection[int] = ()
) -> str:  # fmt: skip
    """A table of plain text that can be sorted; the first column and those numbered in `texts` are words."""

    def side(at: int) -> str:
        return ' class="n"' if not at else ' class="w"' if at in texts else ""

    head = "".join(f'<th scope="col"{side(at)}>{escape(each)}</th>' for at, each in enumerate(heads))
    body = "".join(
        f"<tr>{''.join(f'<td{side(at)}>{escape(cell)}</td>' for at, cell in enumerate(row))}</tr>" for row in rows
    )
    return table(head, body, label=label, sorts=True)


def widening(table: str, key: str, words: str = "All columns") -> str:
    """A table whose columns of class `x` are shown on demand, without script. key: makes it unique on the page."""
    label = f'<label class="button" for="{key}">{escape(words)}</label>'
    return f'<div class="widens"><input type="checkbox" id="{key}">{label}{table}</div>'


def copied(text: str, of: str) -> str:
    """A text with a button that copies it. of: what it is, in words."""
    return f'<div class="copied" data-of="{escape(of)}"><pre tabindex="0">{escape(text)}</pre></div>'


def tabs(panes: Mapping[str, str], key: str) -> str:
    """Panes of which one is shown: radio buttons, so that it works without script. key: makes it unique on the page."""
    buttons = "".join(
        f'<input type="radio" name="{key}" id="{key}-{at}"{"" if at else " checked"}>'
        f'<label for="{key}-{at}">{escape(name)}</label>'
        for at, name in enumerate(panes)
    )
    return f'<div class="tabs">{buttons}{"".join(f"<div>{pane}</div>" for pane in panes.values())}</div>'
