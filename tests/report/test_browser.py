"""The pages in a real browser: readable, at home on a phone, usable by keyboard, and with copies that can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.report.html import page
from tests.live.admin.browser import Browser, program

from .look import fits, opened
from .pages import LIMITS, SLO, SWEEP, about, case, findings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(program() is None, reason="chromium is not installed")]

PAGES = {
    "comparison": page(
        SWEEP, about(slo=SLO), findings(SWEEP, limits=LIMITS, target=0.9, answer="Take fair: as good as any, and 2×.")
    ),
    "run": page([case("fair", None, 1.0)], about(slo=SLO)),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_window_fits_and_every_text_can_be_read(name: str, tmp_path: Path) -> None:
    opened(tmp_path, PAGES[name], lambda browser: fits(browser, name))


def test_it_can_be_read_without_scripts(tmp_path: Path) -> None:
    async def act(browser: Browser) -> None:
        shown = (await browser.call("DOM.getOuterHTML", nodeId=1))["outerHTML"]
        assert "Take fair: as good as any, and 2×." in shown
        assert "<button" not in shown.split("<script")[0], "no button that does nothing"

    opened(tmp_path, PAGES["comparison"], act, scripts=False)


def test_a_table_is_sorted_and_filtered_by_keyboard(tmp_path: Path) -> None:
    column = (
        "[...document.querySelectorAll('table.sorts')[0].tBodies[0].rows]"
        ".filter(row => !row.hidden).map(row => row.cells[2].dataset.v)"
    )

    async def act(browser: Browser) -> None:
        await browser.value("document.querySelectorAll('table.sorts')[0].tHead.rows[0].cells[2].firstChild.focus()")
        await key(browser, "Enter")
        found = await browser.value(column)
        assert found == sorted(found, key=float) and len(set(found)) > 1
        await key(browser, "Enter")
        assert await browser.value(column) == sorted(found, key=float, reverse=True)
        head = "document.querySelectorAll('table.sorts')[0].tHead.rows[0].cells[2]"
        assert await browser.value(f"{head}.getAttribute('aria-sort')") == "descending"
        await browser.value("document.querySelector('input[type=search]').focus()")
        await browser.call("Input.insertText", text="greedy")
        assert len(await browser.value(column)) == 2
        assert await browser.value("document.querySelector('.tools [role=status]').textContent") == "2 of 4 rows"

    opened(tmp_path, PAGES["comparison"], act)


async def key(browser: Browser, name: str) -> None:
    """Press and release a key."""
    text = {"text": "\r"} if name == "Enter" else {}
    codes = {"Enter": 13, "ArrowRight": 39, "Escape": 27, " ": 32}
    for kind in ("keyDown", "keyUp"):
        await browser.call(
            "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=codes[name],
            **(text if kind == "keyDown" else {}),
        )  # fmt: skip


def test_all_columns_are_shown_on_demand(tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('#summary .widens thead th')].filter(cell => cell.clientWidth).length"

    async def act(browser: Browser) -> None:
        few = await browser.value(shown)
        await browser.value("document.querySelector('#columns').focus()")
        await browser.call(
            "Input.dispatchKeyEvent", type="keyDown", key=" ", code="Space", windowsVirtualKeyCode=32, text=" "
        )
        await browser.call("Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space", windowsVirtualKeyCode=32)
        assert few < 10 < await browser.value(shown)

    opened(tmp_path, PAGES["comparison"], act)


def test_panels_are_copied_as_svg_and_csv(tmp_path: Path) -> None:
    async def act(browser: Browser) -> None:
        await browser.value(
            "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
            " {value: {writeText: async text => { copied.push(text); }}})"
        )
        panel = "[...document.querySelectorAll('#over-load figure')][5].querySelectorAll('.copy button')"
        for button in (0, 1):
            await browser.value(f"{panel}[{button}].click()")
            await browser.until(f"copied.length === {button + 1} && {panel}[{button}].textContent === 'copied'")
        drawn, values = await browser.value("copied")
        assert drawn.startswith("<svg") and 'xmlns="http://www.w3.org/2000/svg"' in drawn
        assert "var(--" not in drawn and "class=" not in drawn and "rgb(" in drawn, "it stands alone"
        assert values.splitlines() == ["name,x,y", "fair,1,1", "fair,2,1", "greedy,1,1", "greedy,2,0.75"]
        parsed = f"new DOMParser().parseFromString({drawn!r}, 'image/svg+xml').querySelector('parsererror')"
        assert await browser.value(parsed) is None

    opened(tmp_path, PAGES["comparison"], act)


def test_a_copy_works_without_the_clipboard_api(tmp_path: Path) -> None:
    async def act(browser: Browser) -> None:
        await browser.value(
            "Object.defineProperty(navigator, 'clipboard', {value: undefined}); window.copied = '';"
            "document.execCommand = () => { copied = document.activeElement.value; return true; };"
        )
        await browser.value("document.querySelector('#summary .tools button').click()")
        await browser.until("copied.startsWith('Policy,Load,')")
        assert await browser.value("document.querySelector('textarea')") is None

    opened(tmp_path, PAGES["comparison"], act)


def test_one_cross_hair_reads_all_panels_of_an_axis(tmp_path: Path) -> None:
    async def act(browser: Browser) -> None:
        await browser.value("document.querySelector('#over-load svg.chart').focus()")
        for _ in range(4):
            await key(browser, "ArrowRight")
        script = "[...document.querySelectorAll('#over-load output')].map(each => each.textContent)"
        values = await browser.value(script)
        assert len(values) == 6 and values[5] == "2: fair 100 %, greedy 75 %"
        assert await browser.value("document.querySelectorAll('.cross').length") == 7, "the drawing of the answer too"
        assert await browser.value("document.querySelector('#tip').hidden") is False
        await key(browser, "Escape")
        assert set(await browser.value(script)) == {""}

    opened(tmp_path, PAGES["comparison"], act)


def test_the_theme_can_be_chosen(tmp_path: Path) -> None:
    async def act(browser: Browser) -> None:
        ground = "getComputedStyle(document.body).backgroundColor"
        seen = [await browser.value(ground)]
        for _ in range(3):
            await browser.value("document.querySelector('nav button').click()")
            seen.append(await browser.value(ground))
        assert seen[0] == seen[1] == seen[3] == "rgb(255, 255, 255)" and seen[2] == "rgb(20, 23, 26)"

    opened(tmp_path, PAGES["comparison"], act)
