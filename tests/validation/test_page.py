"""The page of predictions in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.cli import main
from poise.validation.page import human
from tests.live.admin.browser import Browser, program
from tests.report.look import fits, opened
from tests.validation.made import table


@pytest.mark.parametrize(
    "metric, words",
    [
        ("ttft_p99_ms", "Time to first token, p99"), ("output_throughput_per_gpu", "Output tokens per second, per GPU"),
        ("training step_time", "Training: time of a step"), ("odd_thing", "Odd thing"),
    ],
)  # fmt: skip
def test_a_metric_has_a_human_name(metric: str, words: str) -> None:
    assert human(metric) == words


@pytest.mark.slow
@pytest.mark.skipif(program() is None, reason="chromium is not installed")
def test_dots_have_names_and_can_be_filtered(tmp_path: Path) -> None:
    table(tmp_path, {}, {"source": "another"}, {"gpu": "A100-SXM-80GB", "source": "another"})
    assert main(["validate", str(tmp_path), "-q", "--jobs", "1", "--out", str(tmp_path / "page")]) == 0

    async def act(browser: Browser) -> None:
        await fits(browser, "validate")
        shown = "[...document.querySelectorAll('.dots [data-name]:not(.off)')].map(group => group.dataset.name)"
        assert len(await browser.value(shown)) == 3
        await browser.value(
            "const list = document.querySelector('select'); list.value = 'A100-SXM-80GB';"
            "list.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        assert await browser.value(shown) == ["A100-SXM-80GB, another"]
        await browser.value("document.querySelector('details').open = true")
        await browser.value("document.querySelector('svg.dots').focus()")
        await browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", windowsVirtualKeyCode=39)
        told = await browser.value("document.querySelector('#tip').textContent")
        assert told.startswith("A100-SXM-80GB, another\nmeasured 7, predicted ")

    opened(tmp_path, (tmp_path / "page" / "validate.html").read_text(), act)
