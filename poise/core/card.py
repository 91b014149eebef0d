"""Small pieces of HTML that a notebook shows: inline styles alone, and colours that suit a light and a dark page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

RULE = "1px solid rgba(128,128,128,.35)"
"""A line that is seen on light and on dark ground."""

_CELL = f"padding:3px 10px;border-bottom:{RULE};white-space:nowrap;background:transparent"


def card(title: str, *parts: str) -> str:
    """A titled block; parts: HTML."""
    head = f'<div style="font-weight:600;margin:0 0 4px">{escape(title)}</div>' if title else ""
    style = f"font:13px/1.45 system-ui,sans-serif;border:{RULE};border-radius:6px;padding:8px 12px;margin:2px 0"
    return f'<div class="poise" style="{style};max-width:1100px;overflow-x:auto">{head}{"".join(parts)}</div>'


def paragraph(text: str, *, strong: bool = False) -> str:
    """A paragraph of plain text; empty for none."""
    weight = "600" if strong else "400"
    return f'<p style="margin:4px 0;font-weight:{weight}">{escape(text)}</p>' if text else ""


def facts(rows: Mapping[str, object]) -> str:
    """Names with their values."""
    return table(("", ""), [(name, str(value)) for name, value in rows.items()], head=False)


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, head: bool = True, strong: Sequence[int] = ()
) -> str:
    """Rows of text, the first column to the left and the others to the right. strong: numbers of rows in bold."""
    top = "".join(_cell("th", text, at, "600") for at, text in enumerate(headers)) if head else ""
    body = "".join(
        "<tr>"
        + "".join(_cell("td", text, at, "600" if number in strong else "400") for at, text in enumerate(row))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    first = f"<thead><tr>{top}</tr></thead>" if head else ""
    style = "border-collapse:collapse;margin:4px 0;font-variant-numeric:tabular-nums;font-size:12px"
    return f'<table style="{style}">{first}<tbody>{body}</tbody></table>'


def _cell(tag: str, text: str, at: int, weight: str) -> str:
    side = "right" if at else "left"
    return f'<{tag} style="{_CELL};text-align:{side};font-weight:{weight}">{escape(text)}</{tag}>'
