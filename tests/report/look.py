"""What a browser is asked about a page."""

from __future__ import annotations

import re

SMALL = 1_500_000
"""The most bytes of a page."""

READS = re.compile(r'class="pick">[^<]+<')
"""An answer."""

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
