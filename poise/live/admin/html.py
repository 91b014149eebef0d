"""The live page: one HTML file without data; its script fills it from `/events`. It loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from poise.live.admin.script import SCRIPT
from poise.live.admin.style import STYLE
from poise.report.pieces import fold, section

ENGINES = (
    "Engine", "State", "In flight", "Last minute", "Waiting", "Running", "KV used", "Cache hits", "Sent", "Failures",
    "Report age", "",
)  # fmt: skip
TENANTS = (
    "Tenant", "Open", "Held", "Held, last minute", "Oldest wait", "Requests", "Prompt tokens", "Output tokens",
    "Share of tokens", "Limited (429)", "Failed (5xx)", "Left (499)",
)  # fmt: skip
DECISIONS = ("Time", "Request", "Tenant", "Prompt", "Decision", "Waited", "Why")
WORDS = ("State", "Tenant", "Decision", "Why", "Last minute", "Held, last minute")
"""Left-aligned columns."""

CHARTS = (
    ("ttft", "Time to first token", "p50 p95 p99", "log s"),
    ("e2e", "End to end", "p50 p95 p99", "log s"),
    ("prompt", "Prompt tokens", "in", "rate"),
    ("output", "Output tokens", "out", "rate"),
    ("requests", "Requests ended", "all failed", "rate"),
    ("open", "Open requests", "open held", "number"),
)
"""Of each chart: its name, its title, its lines and its scale."""


FINDER = (
    '<p class="bar"><input type="search" id="find" placeholder="Filter engines" aria-label="Filter engines by name, '
    'state or model"><button id="ill" aria-pressed="false">Not serving</button>'
    '<button id="small" aria-pressed="false">Compact</button><span id="found" class="soft" role="status"></span></p>'
    '<div id="map" class="map" aria-label="Engines, compact" role="group" hidden></div>'
)
"""What narrows the list of engines, and turns it into a map of small cells."""

HELP = (
    ("Held", "Requests that the gateway keeps until an engine may take them."),
    ("In flight", "Requests sent to the engine that have not ended, as the gateway counts them."),
    ("Waiting, running, KV used", "What the engine last reported; ~ marks a report that is older than 3 s."),
    ("Cache hits", "The share of prompt tokens that the engine found in its prefix cache."),
    ("Failures", "Attempts that failed by the engine's fault; what a client did wrong does not count."),
    ("Down, ejected, half-open", "Not answering; left out after failures; on trial with a few requests."),
    ("Drain", "Send the engine no more requests; it ends what it has, and Undrain takes it back."),
    ("Limited (429), failed (5xx), left (499)", "Refused by a limit; ended in an error; given up by the client."),
)
"""Words of the page and what they mean."""

DRAINED = '<p id="drained" class="bar" hidden></p>'


def page(nonce: str, needs_token: bool = False) -> str:
    """The page. nonce: what the content security policy lets run and style.  asks_token: ask for the token first."""
    parts = [
        section("Now", '<dl class="tiles" id="tiles"></dl>', anchor="now"),
        section("Engines", FINDER, _table("engines", ENGINES, "Engines", "scroll tall"), DRAINED, anchor="fleet"),
        section("Last five minutes", _charts(), anchor="minutes"),
        section("Decisions", _decisions(), anchor="decisions"),
        section("Tenants", _table("tenants", TENANTS, "Tenants, those with most requests first"), anchor="who"),
        section("Shadow router", '<dl id="shadow"></dl>', _shadow_words(), anchor="shadowed"),
        section("Other gateways", '<dl id="others"></dl>', anchor="peers"),
        section("Recording", '<dl id="recording"></dl>', anchor="record"),
        section("Configuration", _configuration(), anchor="config"),
        section("Help", _help(), anchor="help"),
    ]
    token = " data-token" if needs_token else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<title>Poise gateway</title><style nonce="{nonce}">{STYLE}</style></head>\n<body{token}><main id="top">'
        f'{_contents()}{_header()}<div id="all" class="old">{"".join(parts)}</div></main>'
        f'<div id="tip" role="status" hidden></div><script nonce="{nonce}">{SCRIPT}</script></body></html>\n'
    )


def _contents() -> str:
    """Links to the sections, always in view, and to what programs read."""
    links = (
        ("now", "Now"), ("fleet", "Engines"), ("minutes", "Last five minutes"), ("decisions", "Decisions"),
        ("who", "Tenants"), ("config", "Configuration"), ("help", "Help"),
    )  # fmt: skip
    contents = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in links)
    data = "".join(f'<a href="{name}" class="data">/{name}</a>' for name in ("metrics", "state", "config"))
    return f'<nav aria-label="Sections"><a href="#top">↑ Top</a>{contents}{data}</nav>'


def _header() -> str:
    return (
        '<header><p class="belief" id="models">Poise gateway</p>'
        '<div class="top"><h1>Gateway<span class="state" id="ready"></span></h1>'
        '<p id="link" role="status" aria-live="polite">Connecting …</p></div>'
        '<noscript><p class="partial">This page needs its script; <a href="state">/state</a> has the same as JSON.</p>'
        '</noscript><form id="ask" hidden><label for="token">Admin token</label>'
        '<input id="token" type="password" autocomplete="off" required><button>Show</button>'
        '<span id="wrong" class="partial" role="alert"></span></form>'
        '<p id="change" class="soft" aria-live="polite"></p></header>'
    )


def _table(name: str, heads: Sequence[str], caption: str, frame: str = "scroll") -> str:
    """An empty table with its head, which scrolls within its own frame."""
    kinds = ["n", *("w" if head in WORDS else "" for head in heads[1:])]
    cells = "".join(
        f'<th scope="col" class="{kind}">{escape(head) or "<span class=hide>Action</span>"}</th>'
        for head, kind in zip(heads, kinds, strict=True)
    )
    return (
        f'<div class="{frame}" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="wide">'
        f'<caption class="hide">{escape(caption)}</caption><thead><tr>{cells}</tr></thead>'
        f'<tbody id="{name}"></tbody></table></div>'
    )


def _charts() -> str:
    drawn = "".join(
        f'<figure><figcaption>{title}</figcaption><div class="legend" id="legend-{name}"></div>'
        f'<svg class="chart" id="chart-{name}" role="img" data-lines="{lines}" data-scale="{scale}"></svg></figure>'
        for name, title, lines, scale in CHARTS
    )
    words = (
        "Percentiles are upper bounds of histogram buckets in steps of ten seconds, not exact values; the figures "
        "next to them are of the last minute. Prompt tokens count when their request ends, output tokens as they pass."
    )
    return f'<div class="grid live">{drawn}</div><p class="soft">{words}</p>'


def _decisions() -> str:
    return (
        '<p class="bar"><button id="pause" aria-pressed="false">Pause</button><span id="count" class="soft"></span></p>'
        + _table("rows", DECISIONS, "Decisions, the newest first", "scroll tall few")
    )


def _shadow_words() -> str:
    return (
        '<p class="soft">The gain is of each decision alone, as the control side believes; had the shadow been obeyed, '
        "later requests had met other queues and caches. <code>poise whatif</code> tells what to expect.</p>"
    )


def _configuration() -> str:
    return fold("Policies, limits and engines as resolved", '<pre id="resolved"></pre>')


def _help() -> str:
    """What the page's words mean, and where the manual is; the page itself loads nothing from elsewhere."""
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in HELP)
    return fold("What the words mean", f'<dl class="words">{words}</dl>') + (
        '<p class="soft">The manual is <code>docs/serve.md</code> in the repository of Poise; '
        "<code>poise serve --help</code> lists the options.</p>"
    )
