"""The frame of every page around its sections: head, contents, title, style sheet and script."""

from __future__ import annotations

import re
from html import escape

from poise.report.script import SCRIPT
from poise.report.style import STYLE


def document(title: str, body: str, *, head: str = "", style: str = "", above: str = "") -> str:
    """A whole page as text, which loads nothing from outside.

    body: its sections.  head: below the title.  style: rules of its own.  above: before everything, unseen.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n<body>{above}"
        f'<main id="top">{_contents(body)}<header><h1>{escape(title)}</h1>{head}</header>{body}</main>'
        f'<div id="tip" role="status" hidden></div><script>{SCRIPT}</script></body></html>\n'
    )


def _contents(body: str) -> str:
    """Links to the page's sections, always in view."""
    found = re.findall(r'<section id="([^"]*)"[^>]*><h2[^>]*>(.*?)</h2>', body)
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in found)
    return f'<nav aria-label="Sections"><a href="#top">↑ Top</a>{links}</nav>'
