"""The pages of plans and schedules in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.cli import main
from tests.live.admin.browser import Browser, program
from tests.report.look import fits, opened

pytestmark = [pytest.mark.slow, pytest.mark.skipif(program() is None, reason="chromium is not installed")]

FLEET = (
    "plan", "--model", "llama-3.1-8b", "--devices", "H100,L40S", "--slo", "ttft_s=1,tpot_s=0.05", "--rate", "20",
    "--prompt-tokens", "500", "--output-tokens", "80", "--requests", "200", "--seeds", "2", "--jobs", "1", "--no-split",
    "--no-mix",
)  # fmt: skip
LAYOUT = ("train", "plan", "facebook/opt-13b", "--devices", "H100", "--gpus", "8", "--batch", "32", "--seq", "2048")


def test_a_plan_fits_and_its_files_can_be_copied(tmp_path: Path) -> None:
    assert main([*FLEET, "--out", str(tmp_path / "plan")]) == 0

    async def act(browser: Browser) -> None:
        await fits(browser, "plan")
        await browser.value(
            "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
            " {value: {writeText: async text => { copied.push(text); }}})"
        )
        await browser.value("document.querySelector('#files .copied button').click()")
        await browser.until("copied.length === 1")
        assert await browser.value("copied[0]") == (tmp_path / "plan" / "vllm.sh").read_text()
        price = "document.querySelector('#holds tbody tr').cells[1].getBoundingClientRect().right"
        await browser.look(390, 844, dark=False)
        assert await browser.value(price) <= 390, "a phone shows the price"

    opened(tmp_path, (tmp_path / "plan" / "plan.html").read_text(), act)


def test_a_layout_fits(tmp_path: Path) -> None:
    assert main([*LAYOUT, "--pipeline", "4", "--zero", "1", "--out", str(tmp_path / "plan")]) == 0
    opened(tmp_path, (tmp_path / "plan" / "plan.html").read_text(), lambda browser: fits(browser, "layout"))


def test_a_dense_schedule_has_no_gaps_and_can_be_magnified(tmp_path: Path) -> None:
    file = tmp_path / "schedule.html"
    words = ["train", "schedule", "interleaved", "--ranks", "4", "--microbatches", "128", "--chunks", "2"]
    assert main([*words, "--page", str(file)]) == 0
    assert 'dense"' in file.read_text()

    async def act(browser: Browser) -> None:
        await fits(browser, "schedule", answer=False)
        lane = "document.querySelector('figure .lanes').getBoundingClientRect().width"
        once = await browser.value(lane)
        await browser.value("document.querySelector('#zoom-4').click()")
        assert await browser.value(lane) >= 3.9 * once

    opened(tmp_path, file.read_text(), act)


def test_lanes_of_a_program_have_readable_names(tmp_path: Path) -> None:
    file = tmp_path / "step.html"
    words = ["train", "show", "dualpipe", "--ranks", "8", "--microbatches", "16", "--comm", "0.25"]
    assert main([*words, "--time", "all_reduce=1", "--page", str(file)]) == 0

    async def act(browser: Browser) -> None:
        await fits(browser, "program", answer=False)
        names = "[...document.querySelectorAll('.lanes text[text-anchor=end]')].map(each => each.getBBox())"
        assert await browser.value(f"{names}.length") > 8 * 3
        assert await browser.value(f"Math.min(...{names}.map(box => box.x))") >= 0, "no name is cut"

    opened(tmp_path, file.read_text(), act)
