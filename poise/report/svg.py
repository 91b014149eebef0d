"""Drawings of a page as SVG files of their own, with the rules of the style sheet that they need.

Colours are written out, so that programs without CSS variables (LaTeX's converters, Inkscape) draw them as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

from poise.report.chart import colour
from poise.report.files import replacing
from poise.report.style import STYLE

FOLDER = "figures"

_ROW, _PIECE = 18, 26
"""Height of a row of the legend, and the length of the piece of line in it."""

_LETTER = 7.0
"""Width that the legend leaves to a letter."""


def light() -> dict[str, str]:
    """The colours of the light page, by the names of their variables."""
    first = STYLE[: STYLE.index("@media")]
    return dict(re.findall(r"--([\w-]+):([^;}]+)", first))


def rules(drawing: str, colours: Mapping[str, str], within: str = "") -> str:
    """The rules of the style sheet for the classes of a drawing, with their colours written out.

    within: a selector that stands before each, so that they hold nowhere else.
    """
    used = {name for names in re.findall(r'class="([^"]*)"', drawing) for name in names.split()}
    found = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", _without_media(STYLE)):
        kept = [each.strip() for each in selectors.split(",") if _concerns(each.strip(), used)]
        if kept:
            plain = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], body)
            found.append(f"{','.join(f'{within} {each}'.strip() for each in kept)}{{{plain}}}")
    return "".join(found)


def _concerns(selector: str, used: set[str]) -> bool:
    """Whether a selector names classes of a drawing and nothing else, or its text."""
    classes = re.findall(r"\.([\w-]+)", selector)
    rest = re.sub(r"\.[\w-]+", "", selector).split()
    known = set(classes) <= used and set(rest) <= {"svg", "text", "rect", "image"}
    return known and bool(classes or rest == ["svg", "text"])


def _without_media(style: str) -> str:
    return re.sub(r"@(?:media|container)[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", style)


def drawings(page: str) -> dict[str, str]:
    """The drawings of a page by name, each a whole SVG file; the title of a fold around one is part of its name."""
    reader = _Reader(page)
    reader.feed(page)
    return reader.found


def write_drawings(page: str, folder: Path) -> list[Path]:
    """Write the drawings of a page as figures/NAME.svg below `folder`, in place of earlier ones; returns the paths."""
    files: list[Path] = []
    for old in (folder / FOLDER).glob("*.svg"):
        old.unlink()
    for name, text in drawings(page).items():
        files.append(folder / FOLDER / f"{name}.svg")
        with replacing(files[-1]) as file:
            file.write(text.encode())
    return files


class _Reader(HTMLParser):
    """Walks through a page: the section and fold in which a drawing stands, its title, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._starts = [0]
        for line in page.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._page, self._section, self._folds = page, "", [""]
        self._title, self._heard, self._figure, self._begin = "", "", False, -1
        self._again = False
        """Whether a drawing is one once more, for a narrow screen."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a drawing begins, and what it belongs to."""
        given = dict(attrs)
        if tag == "section":
            self._section, self._folds = given.get("id") or "", [""]
        elif tag == "details":
            self._folds.append("")
        elif tag in ("summary", "figcaption", "h3"):
            self._heard = ""
        elif tag == "figure":
            self._figure, self._title = True, ""
        elif tag == "div":
            self._again = given.get("class") == "narrow"
        elif tag == "svg" and self._figure and self._begin < 0 and not self._again:
            self._begin = self._at()

    def handle_data(self, data: str) -> None:
        """Collect the text of titles."""
        self._heard += data

    def handle_endtag(self, tag: str) -> None:
        """Keep what has ended."""
        if tag == "summary" and len(self._folds) > 1:
            self._folds[-1] = self._heard
        elif tag == "details" and len(self._folds) > 1:
            self._folds.pop()
        elif tag == "figcaption":
            self._title = self._heard
        elif tag == "figure":
            self._figure = False
        elif tag == "svg" and self._begin >= 0:
            self._keep(self._page[self._begin : self._at() + len("</svg>")])
            self._begin = -1

    def _at(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    def _keep(self, text: str) -> None:
        if "viewBox" not in text or "aria-hidden" in text[: text.index(">")]:
            return  # a swatch of a legend
        label = re.search(r'aria-label="([^"]*)"', text[: text.index(">")])
        title = unescape(label[1]) if label else self._title
        words = [self._section, *self._folds, title]
        name = re.sub(r"[^a-z0-9.]+", "-", " ".join(dict.fromkeys(filter(None, words))).lower()).strip("-") or "figure"
        number = 1
        while (whole := name if number == 1 else f"{name}-{number}") in self.found:
            number += 1
        self.found[whole] = standalone(text, title)


def standalone(text: str, title: str = "") -> str:
    """A drawing of a page as a whole file, with its title, a legend of its lines and its own colours."""
    head, rest = text[: text.index(">") + 1], text[text.index(">") + 1 :]
    box = re.search(r'viewBox="([-\d.]+) ([-\d.]+) ([\d.]+) ([\d.]+)"', head)
    if box is None:
        return text
    left, top, width, height = map(float, box.groups())
    named = _lines(rest)
    rows, places = _placed([name for name, _ in named], width) if len(named) > 1 else (0, [])
    legend = "".join(
        _key(name, tint, left + x, top + height + y) for (name, tint), (x, y) in zip(named, places, strict=False)
    )
    whole = height + _ROW * rows + (6 if rows else 0)
    head = head.replace(box[0], f'viewBox="{left:g} {top:g} {width:g} {whole:g}" width="{width:g}" height="{whole:g}"')
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" font-family="Helvetica,Arial,sans-serif"', 1)
    style = f"<style>{rules(head + rest + legend, light())}</style>"
    name = f"<title>{escape(title)}</title>" if title else ""
    return f"{head}{name}{style}{rest[: -len('</svg>')]}{legend}</svg>\n"


def _key(name: str, tint: str, x: float, y: float) -> str:
    """One entry of a legend: a piece of the line and its name."""
    line = f'<line class="l {tint}" x1="{x:g}" x2="{x + _PIECE - 6:g}" y1="{y - 4:g}" y2="{y - 4:g}"/>'
    return f'{line}<text x="{x + _PIECE:g}" y="{y:g}">{escape(name)}</text>'


def _lines(text: str) -> list[tuple[str, str]]:
    """The named lines of a chart with the classes of their colours."""
    found: dict[str, str] = {}
    for name, body in re.findall(r'<g data-name="([^"]*)">(.*?)(?=<g data-name=|</svg>)', text, re.DOTALL):
        tint = re.search(r'class="l (c\d)"', body)
        found.setdefault(unescape(name), tint[1] if tint else colour(0))
    return list(found.items())


def _placed(names: list[str], width: float) -> tuple[int, list[tuple[float, float]]]:
    """Rows of a legend, and the place of each name in them."""
    x, y, places = 8.0, float(_ROW), []
    for name in names:
        needed = _PIECE + _LETTER * len(name) + 14
        if x + needed > width and x > 8:
            x, y = 8.0, y + _ROW
        places.append((x, y))
        x += needed
    return round(y / _ROW), places
