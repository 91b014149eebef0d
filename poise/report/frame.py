"""The frame of every page around its sections: the head, the style sheet and the script that shows chart values."""

from __future__ import annotations

from html import escape

from poise.report.script import SCRIPT
from poise.report.style import STYLE


def document(title: str, body: str, *, style: str = "", above: str = "") -> str:
    """A whole page as text, which loads nothing from outside. style: rules of its own.  above: before the body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n<body>{above}<main>{body}</main>"
        f'<div id="tip" role="status" hidden></div><script>{SCRIPT}</script></body></html>\n'
    )
