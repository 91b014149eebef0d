"""The page in a real browser: a trace dropped and mapped, runs started, cancelled, put side by side, a story told."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.live.admin import browser as chromium
from tests.live.admin.browser import Browser, program
from tests.ui.house import served

pytestmark = [pytest.mark.slow, pytest.mark.skipif(program() is None, reason="chromium is not installed")]

ROWS = "".join(f"{n * 0.05},{200 + n % 7},{20 + n % 3}\n" for n in range(400))
NAMED = "created at,in tok,out tok\n" + ROWS
BAD = "arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,many,10\n"

SET = """(name, value) => {{
  const field = document.querySelector(`[name="${{name}}"]`);
  field.value = value;
  field.dispatchEvent(new Event("input", {{ bubbles: true }}));
  field.dispatchEvent(new Event("change", {{ bubbles: true }}));
}}"""


async def drop(browser: Browser, name: str, text: str) -> None:
    """Drop a file onto the page."""
    await browser.value(
        f"""(() => {{
          const data = new DataTransfer();
          data.items.add(new File([{json.dumps(text)}], {json.dumps(name)}));
          document.querySelector("#drop").dispatchEvent(new DragEvent("drop", {{ bubbles: true, dataTransfer: data }}));
        }})()"""
    )


async def fill(browser: Browser, **fields: object) -> None:
    """Type into fields."""
    for name, value in fields.items():
        await browser.value(f"({SET.format()})({json.dumps(name)}, {json.dumps(value)})")


async def pick(browser: Browser, *selectors: str) -> None:
    """Click what is there."""
    for selector in selectors:
        await browser.until(f"document.querySelector({json.dumps(selector)})")
        await browser.value(f"document.querySelector({json.dumps(selector)}).click()")


def text(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).textContent"


def state(run: str, word: str) -> str:
    return f"{text(f'#run-{run} .state')} === {json.dumps(word)}"


async def start(browser: Browser, name: str) -> None:
    """Name the run, wait for its command, and start it."""
    await fill(browser, name=name)
    await browser.until(f"{text('#shell')}.trim().endsWith('runs/{name}')")
    await browser.until("!document.querySelector('#start').disabled")
    await pick(browser, "#start")
    await browser.until(f"document.querySelector('#run-{name}')")


async def check_windows(browser: Browser, name: str) -> None:
    """The page is never wider than its window, light or dark; where POISE_SCREENSHOTS names a folder, pictures stay."""
    for wide, dark in ((1400, False), (1400, True), (390, False), (390, True)):
        picture = await browser.look(wide, 900, dark)
        assert await browser.value("document.documentElement.scrollWidth") == wide
        if folder := os.environ.get("POISE_SCREENSHOTS"):
            (Path(folder) / f"{name}_{wide}_{'dark' if dark else 'light'}.png").write_bytes(picture)
    await browser.look(1400, 900, False)


async def check_trace(browser: Browser) -> None:
    """A bad trace is refused with the command's line; one with other names is mapped by suggestion."""
    await pick(browser, "[name=source][value=trace]")
    await browser.until("!document.querySelector('#drop').closest('[data-when]').hidden")
    await drop(browser, "bad.csv", BAD)
    await browser.until(f"{text('#trace-error')}.includes('line 3')")
    assert "prompt_tokens is 'many'" in await browser.value(text("#trace-error"))
    await drop(browser, "notes.md", "# no trace\n")
    await browser.until(f"{text('#trace-error')}.includes('ending')")
    await drop(browser, "my trace.csv", NAMED)
    await browser.until(f"{text('#traffic')}.startsWith('400 requests over')")
    await browser.until(f"{text('#mapping-words')}.includes('check what is suggested')")
    assert await browser.value("document.querySelector('#column-prompt_tokens').value") == "in_tok"
    await fill_column(browser, "output_tokens", "in_tok")
    await browser.until(f"{text('#traffic')}.includes('outputs of 203')")
    await fill_column(browser, "output_tokens", "out_tok")
    await browser.until(f"{text('#traffic')}.includes('outputs of 21')")
    await browser.until(f"{text('#yaml')}.includes('arrival_s: created_at')")


async def fill_column(browser: Browser, field: str, column: str) -> None:
    await browser.value(
        f"(() => {{ const field = document.querySelector('#column-{field}'); field.value = '{column}'; "
        "field.dispatchEvent(new Event('change')); })()"
    )


async def check_compare(browser: Browser) -> None:
    """Two comparisons of the trace, one with fewer replicas."""
    await fill(browser, loads="1", replicas=2)
    await start(browser, "first")
    await browser.until(state("first", "done"))
    await fill(browser, replicas=1)
    await start(browser, "second")
    await browser.until(state("second", "done"))


async def check_cancel(browser: Browser) -> None:
    """A run of hours is cancelled while it runs."""
    await pick(browser, "[name=source][value=generated]")
    await fill(browser, rate=50, requests=2000000)
    await start(browser, "long")
    await browser.until(state("long", "running"))
    await pick(browser, "#run-long button")
    await browser.until(state("long", "cancelled"))
    await fill(browser, rate=5, requests=300)


KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39}


async def press(browser: Browser, key: str) -> None:
    """Press a key where the focus is."""
    given = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
    text = {"text": "\r"} if key == "Enter" else {}
    await browser.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
    await browser.call("Input.dispatchKeyEvent", type="keyUp", **given)


async def check_keyboard(browser: Browser) -> None:
    """The form is reached by Tab, a choice is made by an arrow, and what has the focus is outlined."""
    await browser.value("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    await browser.value("document.querySelector('.skip').focus()")
    reached = []
    while not reached or reached[-1] != "what":
        await press(browser, "Tab")
        reached.append(await browser.value("document.activeElement.name || document.activeElement.textContent"))
        assert len(reached) < 10, reached
    assert reached == ["New run", "Runs", "Side by side", "Story", "what"]
    outlined = "getComputedStyle(document.activeElement.closest('.chip')).outlineStyle"
    assert await browser.value(outlined) == "solid"
    await press(browser, "ArrowRight")
    await browser.until(f"{text('#shell')}.startsWith('poise plan')")


async def check_plan(browser: Browser) -> None:
    """A plan, whose command changes with what is picked; it is started by Enter."""
    await check_keyboard(browser)
    await fill(browser, time_limit_s=20)
    await browser.until(f"{text('#shell')}.includes('--minimize cost --time-limit 20')")
    await fill(browser, minimize="gpus")
    await browser.until(f"{text('#shell')}.includes('--minimize gpus')")
    await fill(browser, name="fleet")
    await browser.until(f"{text('#shell')}.trim().endsWith('runs/fleet')")
    await browser.until("!document.querySelector('#start').disabled")
    await browser.value("document.querySelector('#name').focus()")
    await press(browser, "Enter")
    await browser.until("document.querySelector('#run-fleet')")
    await browser.until(state("fleet", "done"))
    await browser.until(f"{text('#run-fleet .files')}.includes('plan.json')")


async def check_beside(browser: Browser) -> None:
    await pick(browser, "#run-first input", "#run-second input", "#put-beside")
    await browser.until("document.querySelectorAll('#beside-table tbody tr').length > 20")
    assert await browser.value(text("#beside-table thead")) == "Figurefirstsecond"
    words = await browser.value("[...document.querySelectorAll('#beside-table small')].map(e => e.className)")
    assert "better" in words or "worse" in words


async def check_story(browser: Browser) -> None:
    await browser.until("document.querySelectorAll('#story-router option').length === 4")
    await browser.value("document.querySelector('#story-request').value = 7")
    await pick(browser, "#ask button")
    await browser.until("document.querySelectorAll('#story-table tbody tr').length > 3")
    assert "finished with" in await browser.value(text("#story-table tbody tr:last-child"))
    assert await browser.value(text("#story-closing"))
    await browser.value("document.querySelector('#story-request').value = 100000")
    await pick(browser, "#ask button")
    await browser.until(f"{text('#story-error')}.includes('has no request 100000')")


async def check_report(browser: Browser, base: str) -> None:
    """A report opens, its scripts run, and it cannot read the page's answers."""
    await browser.open(f"{base}runs/first/report.html")
    await browser.until("document.querySelector('h1')")
    assert await browser.value("document.querySelectorAll('svg').length") > 5
    denied = f"fetch('{base}api/traces').then(() => 'read', () => 'denied')"
    assert await browser.value(denied) == "denied"


CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const given = parse(getComputedStyle(at).backgroundColor);
      if (given.length < 4 || given[3] > 0) return given;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && !node.disabled
    && [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim())).map((node) => {
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    return [(a + .05) / (b + .05), node.tagName + "." + node.className + " " + node.textContent.slice(0, 30)];
  }).filter(([ratio]) => ratio < 4.5);
})()"""


async def check_contrast(browser: Browser) -> None:
    """All text that can be seen has the contrast of WCAG AA."""
    for dark in (False, True):
        await browser.look(1400, 900, dark)
        assert await browser.value(CONTRAST) == []
    await browser.look(1400, 900, False)


def test_everything_that_the_page_is_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "ui") as page, Browser() as browser:
            await browser.look(1400, 900, dark=False)
            await browser.open(page.url)
            await browser.until(f"{text('#shell')}.startsWith('poise compare')")
            assert "token" not in await browser.value("location.href")
            await check_windows(browser, "new")
            await check_trace(browser)
            await check_windows(browser, "trace")
            await check_compare(browser)
            await check_cancel(browser)
            await check_plan(browser)
            await check_beside(browser)
            await check_story(browser)
            await check_windows(browser, "all")
            await check_contrast(browser)
            await browser.open(page.base)  # its cookie is enough from now on
            await browser.until("document.querySelectorAll('#list li').length === 4")
            errors = [each for each in browser.errors if "400" not in each]  # the mistakes that were made on purpose
            assert errors == []
            await check_report(browser, page.base)
            assert await page.stop() == 0

    asyncio.run(main())


def test_who_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the token, under a name that was pointed here, and out of the folder there is nothing."""
    monkeypatch.setattr(chromium, "FLAGS", (*chromium.FLAGS, "--host-resolver-rules=MAP evil.example 127.0.0.1"))

    async def main() -> None:
        async with served(tmp_path / "ui") as page, Browser() as browser:
            for url in (page.base, f"{page.base}?token=wrong"):
                await browser.open(url)
                await browser.until(f"{text('body')}.startsWith('Open the whole address')")
            await browser.open(page.url.replace("127.0.0.1", "evil.example"))
            await browser.until(f"{text('body')}.startsWith('This page is not known by that name')")
            await browser.open(page.url)
            await browser.until(f"{text('#shell')}.startsWith('poise compare')")
            for path in ("runs/..%2f..%2f..%2fetc%2fpasswd", "runs/%2e%2e/x", "api/traces/..%2f..%2fevil.csv"):
                method = "PUT" if "traces" in path else "GET"
                got = await browser.value(f"fetch({json.dumps(path)}, {{ method: '{method}' }}).then((a) => a.status)")
                assert got in (400, 404), path
            assert [each.name for each in tmp_path.iterdir()] == ["ui"]
            assert await browser.value("document.cookie") == ""  # HttpOnly
            stolen = page.base.replace("127.0.0.1", "evil.example")
            await browser.open(f"{stolen}api/traces")
            await browser.until(f"{text('body')}.startsWith('This page is not known by that name')")

    asyncio.run(main())
