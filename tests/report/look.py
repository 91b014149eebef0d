"""A page in a real browser: whether it fits and can be read.

Where POISE_SCREENSHOTS names a folder, pictures of the pages are kept there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.live.admin.browser import Browser

Act = Callable[[Browser], Awaitable[None]]

WINDOWS = ((1400, 900, False), (1400, 900, True), (390, 844, False), (390, 844, True))
"""Width, height, and whether dark."""

SMALL = 1_500_000
"""The most bytes of a page."""

FADED = """(() => {
  const numbers = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(") ? found.map((part, at) => at < 3 ? 255 * part : part) : found;
  };
  const over = ([r, g, b, a = 1], ground) => [r, g, b].map((part, at) => a * part + (1 - a) * ground[at]);
  const ground = node => {
    const behind = node.parentElement ? ground(node.parentElement) : [255, 255, 255];
    return over(numbers(getComputedStyle(node).backgroundColor), behind);
  };
  const bright = colour => colour.map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const faded = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement, look = getComputedStyle(node);
    if (!text.data.trim() || !node.getClientRects().length || look.visibility === "hidden") continue;
    if (node.closest("script, style, [hidden], .hide, .lanes, .old")) continue;
    const behind = ground(node);
    const front = over(numbers(node.closest("svg") ? look.fill : look.color), behind);
    const [low, high] = [bright(front), bright(behind)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05), large = parseFloat(look.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) faded.push(`${text.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faded;
})()"""
"""Texts whose contrast to their ground is below that of WCAG 2.2 AA."""

THEME = "document.querySelector('nav button')?.getBoundingClientRect().right ?? 0"
"""Where the button of the theme ends, which must not need scrolling; 0 without one."""


def opened(folder: Path, text: str, act: Act, *, scripts: bool = True) -> None:
    """Open a page of this text and act on it; its console must stay empty."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")

    async def main() -> None:
        async with Browser() as browser:
            await browser.call("Emulation.setScriptExecutionDisabled", value=not scripts)
            await browser.look(1400, 900, dark=False, whole=False)
            await browser.call("DOM.enable")
            await browser.open(file.as_uri())
            await browser.seen("Page.loadEventFired")
            await browser.call("DOM.getDocument", depth=0)
            await act(browser)
            assert browser.errors == []

    asyncio.run(main())


async def fits(browser: Browser, name: str, *, answer: bool = True) -> None:
    """The page is small, no wider than any window, its text has contrast, its answer and theme are on screen."""
    assert await browser.value("new Blob([document.documentElement.outerHTML]).size") < SMALL
    for wide, high, dark in WINDOWS:
        picture = await browser.look(wide, high, dark, whole=False)
        if folder := os.environ.get("POISE_SCREENSHOTS"):
            (Path(folder) / f"{name}-{wide}-{'dark' if dark else 'light'}.png").write_bytes(picture)
        if answer:
            foot = "document.querySelector('#answer .card').getBoundingClientRect().bottom"
            assert await browser.value(foot) <= high, (name, wide)
        folds = "document.querySelectorAll('details').forEach(fold => { fold.open = %s; })"
        await browser.value(folds % "true")
        assert await browser.value("document.documentElement.scrollWidth") == wide, (name, wide)
        assert await browser.value(FADED) == [], (name, wide, dark)
        assert await browser.value(THEME) <= wide, (name, wide)
        await browser.value(folds % "false")
