"""HTML building blocks of the page's sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def section(title: str, *parts: str, anchor: str, names: str = "") -> str:
    """A section with a heading that the contents lead to; `names` is for the script."""
    text = f' data-names="{escape(names)}"' if names else ""
    return f'<section id="{anchor}"{text}><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def grid(figures: Sequence[str], *, pairs: bool = False) -> str:
    """Figures side by side, as many as the screen has room for, or at most two."""
    return f'<div class="grid{" pairs" if pairs else ""}">{"".join(figures)}</div>'


def fold(title: str, body: str, opened: bool = False) -> str:
    """A section that unfolds."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{body}</details>"


def fold_all(parts: Sequence[tuple[str, str]]) -> str:
    """Parts with their titles, the middle one open; a single one is not folded."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    return "".join(fold(name[:1].upper() + name[1:], body, at == middle) for at, (name, body) in enumerate(parts))


def table(head: str, body: str) -> str:
    """A table that scrolls within its own frame, so that the page never gets wider than the screen.

    head: the cells of the head.  body: its rows, or several bodies.
    """
    rows = body if body.startswith("<tbody") else f"<tbody>{body}</tbody>"
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>{rows}</table></div>'


def tabs(panes: Mapping[str, str], key: str) -> str:
    """Panes of which one is shown: radio buttons, so that it works without script. key: makes it unique on the page."""
    buttons = "".join(
        f'<input type="radio" name="{key}" id="{key}-{at}"{"" if at else " checked"}>'
        f'<label for="{key}-{at}">{escape(name)}</label>'
        for at, name in enumerate(panes)
    )
    return f'<div class="tabs">{buttons}{"".join(f"<div>{pane}</div>" for pane in panes.values())}</div>'
