"""The page in a real browser, with real traffic: it complains of nothing and shows what there is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from poise.core.control.shadow import shadowed
from poise.live.requests.tenants import Tenants
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache

from .browser import Browser, program
from .house import House, house, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(program() is None, reason="chromium is not installed")]

KEYS = {"chat": "key-of-chat-000000000000", "<img src=x onerror=alert(1)>": "key-of-evil-000000000000"}


async def traffic(here: House, enough: asyncio.Event) -> None:
    """Some requests at once, again and again, until it is enough."""
    keys = list(KEYS.values())
    turn = 0
    while not enough.is_set():
        turn += 1
        requests = (
            here.complete(f"{n % 5} " * 300 + str(turn), keys[n % 2], max_tokens=30, stream=True) for n in range(8)
        )
        await asyncio.gather(*requests)


def tenants(folder: Path) -> Tenants:
    file = folder / "tenants.yaml"
    file.write_text("".join(f'- name: "{name}"\n  key: {key}\n' for name, key in KEYS.items()))
    return Tenants.of(file)


def text(selector: str) -> str:
    return f"document.querySelector('{selector}').textContent"


def test_the_page_shows_what_there_is(tmp_path: Path) -> None:
    """Where POISE_SCREENSHOTS names a folder, pictures of the page are kept there."""
    router = shadowed(PrefixCache(), LeastRequests())

    async def main() -> None:
        async with house(router=router, admission=[Ceiling(3)], tenants=tenants(tmp_path), step_s=0.2) as here:
            enough = asyncio.Event()
            load = asyncio.get_running_loop().create_task(traffic(here, enough))
            async with Browser() as browser:
                await browser.look(1280, 900, dark=False)
                await browser.open(f"http://127.0.0.1:{here.admin_port}/")
                await browser.until("document.querySelectorAll('#rows tr').length > 20")
                await browser.until("document.querySelectorAll('#chart-ttft path').length === 3")
                await browser.until("document.querySelectorAll('#tenants tr').length === 2")
                assert await browser.value(text("#ready")) == "ready"
                assert await browser.value(text("#link")) == "Live"
                names = await browser.value(
                    "[...document.querySelectorAll('#engines th span')].map(e => e.textContent)"
                )
                assert names == ["a", "b"]
                sent = await browser.value("+document.querySelector('#engines tr td:nth-child(9)').textContent")
                assert sent > 0
                shown = await browser.value("[...document.querySelectorAll('#tenants th')].map(e => e.textContent)")
                assert sorted(shown) == sorted(KEYS), "a name is text, whatever is in it"
                assert await browser.value("document.images.length") == 0
                await browser.until(
                    "[...document.querySelectorAll('.why')].some(e => e.textContent.includes('cached'))"
                )
                assert await browser.value("!document.querySelector('#shadowed').hidden")
                await check_finder(browser)
                await check_pause(browser)
                await check_drain(browser, here)
                await check_setup(browser)
                await check_windows(browser)
                await here.admin.stop()
                await browser.until("document.querySelector('#link').classList.contains('lost')")
                await browser.until("document.querySelector('#all').classList.contains('old')")
            enough.set()
            await load
            errors = [each for each in browser.errors if "ERR_CONNECTION_REFUSED" not in each]  # it was stopped
            assert errors == []

    run(main)


async def check_finder(browser: Browser) -> None:
    """Engines are narrowed by words and by state, drawn over the last minute, and shown as a map of cells."""
    await browser.until("document.querySelectorAll('#engines .spark path:last-child[d*=L]').length === 2")
    assert await browser.value(text("#found")) == "2 engines"
    await browser.value("document.querySelector('#find').focus()")
    await browser.call("Input.insertText", text="llama nothing")
    await browser.until("document.querySelectorAll('#engines tr').length === 0")
    assert await browser.value(text("#found")) == "0 of 2 engines"
    await browser.value("document.querySelector('#find').value = 'llama'; document.querySelector('#ill').click()")
    await browser.until("document.querySelectorAll('#engines tr').length === 0")
    await browser.value("document.querySelector('#ill').click(); document.querySelector('#small').click()")
    await browser.until("document.querySelectorAll('#map button.serving').length === 2")
    assert await browser.value("document.querySelector('#engines').closest('.scroll').hidden")
    await browser.value("document.querySelector('#map').lastChild.click()")
    await browser.until("document.querySelectorAll('#engines tr').length === 2")
    assert await browser.value("document.activeElement.getAttribute('aria-label')") == "Drain b"


async def check_pause(browser: Browser) -> None:
    """Rows stay where they are while they are read."""
    await browser.value("document.querySelector('#pause').click()")
    first = await browser.value(text("#rows tr"))
    await browser.until(f"/[1-9][0-9]* newer/.test({text('#count')})")
    assert await browser.value(text("#rows tr")) == first
    await browser.value("document.querySelector('#pause').click()")
    assert await browser.value(text("#rows tr")) != first


async def check_drain(browser: Browser, here: House) -> None:
    """An engine is drained and comes back by its button."""
    await browser.value("window.confirm = () => true; document.querySelector('#engines tr button').click()")
    await browser.until("document.querySelectorAll('#engines tr').length === 1")
    await browser.until(text("#drained") + ".startsWith('Drained: a')")
    assert [engine.name for engine in here.gateway.world.fleet] == ["b"]
    await browser.value("document.querySelector('#drained button').click()")
    await browser.until("document.querySelectorAll('#engines tr').length === 2")
    await browser.until("[...document.querySelectorAll('#engines .state')].every(e => e.textContent === 'serving')")


async def check_setup(browser: Browser) -> None:
    """What was set up can be unfolded."""
    await browser.value("document.querySelector('#config details').open = true")
    await browser.until(text("#resolved") + ".includes('PrefixCache')")
    await browser.value("document.querySelector('#config details').open = false")


async def check_windows(browser: Browser) -> None:
    """The page is never wider than its window, light or dark."""
    await browser.value("document.querySelector('#rows details').open = true")
    for name, wide, high, dark in (
        ("light", 1280, 2600, False), ("dark", 1280, 2600, True), ("narrow", 390, 4000, False)
    ):  # fmt: skip
        picture = await browser.look(wide, high, dark)
        assert await browser.value("document.documentElement.scrollWidth") == wide
        if folder := os.environ.get("POISE_SCREENSHOTS"):
            (Path(folder) / f"{name}.png").write_bytes(picture)


def test_a_token_is_requested_and_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(("a",), token="sesame") as here:
            async with Browser() as browser:
                await browser.open(f"http://127.0.0.1:{here.admin_port}/")
                await browser.until("!document.querySelector('#ask').hidden")
                for token, then in (("wrong", text("#wrong")), ("sesame", text("#ready") + " === 'ready'")):
                    await browser.value(
                        f"document.querySelector('#token').value = '{token}'; "
                        "document.querySelector('#ask button').click()"
                    )
                    await browser.until(then)
                assert await browser.value("document.querySelector('#ask').hidden")
                await browser.open(f"http://127.0.0.1:{here.admin_port}/")
                await browser.until(text("#ready") + " === 'ready'")
            assert all("401" in each for each in browser.errors), browser.errors

    run(main)


def test_a_map_of_engines_keeps_their_order_and_shows_what_tells_them_apart() -> None:
    names = [f"pool-east.{letter}.example" for letter in "cab"]

    async def main() -> None:
        async with house(names) as here, Browser() as browser:
            await browser.open(f"http://127.0.0.1:{here.admin_port}/")
            await browser.until("document.querySelectorAll('#engines tr').length === 3")
            await browser.value("document.querySelector('#small').click()")
            for word in ("a.example", ""):
                await browser.value(
                    f"document.querySelector('#find').value = '{word}'; "
                    "document.querySelector('#find').dispatchEvent(new Event('input'))"
                )
            shown = "[...document.querySelectorAll('#map button')].map(each => {})"
            assert await browser.value(shown.replace("{}", "each.firstChild.textContent")) == ["c", "a", "b"]
            assert await browser.value(shown.replace("{}", "each.title")) == names
            assert browser.errors == []

    run(main)
