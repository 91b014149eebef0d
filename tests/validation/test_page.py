"""The page of predictions in a real browser."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from poise.cli import main
from poise.validation.names import long_name, short_name
from tests.live.admin.browser import Browser, program
from tests.report.look import fits, opened
from tests.validation.made import table


@pytest.mark.parametrize(
    "metric, short, long",
    [
        ("ttft_p99_ms", "TTFT p99", "Time to first token, p99"),
        ("tpot_p50_s", "TPOT p50", "Time per output token, median"),
        ("output_throughput_per_gpu", "output throughput per gpu", "Output tokens per second, per GPU"),
        ("training step_time", "training step time", "Training: time of a step"),
        ("odd_thing", "odd thing", "Odd thing"),
    ],
)
def test_a_metric_has_a_short_and_a_long_name(metric: str, short: str, long: str) -> None:
    assert (short_name(metric), long_name(metric)) == (short, long)


def test_the_same_data_gives_the_same_page(tmp_path: Path) -> None:
    table(tmp_path, {}, {"source": "another"})
    for name in ("one", "two"):
        assert main(["validate", str(tmp_path), "-q", "--jobs", "1", "--out", str(tmp_path.parent / name)]) == 0
    one, two = ((tmp_path.parent / name / "validate.html").read_bytes() for name in ("one", "two"))
    assert one == two and datetime.now(UTC).date().isoformat().encode() not in one


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
        tip = await browser.value("document.querySelector('#tip').textContent")
        assert tip.startswith("A100-SXM-80GB, another\nmeasured 7, predicted ")

    opened(tmp_path, (tmp_path / "page" / "validate.html").read_text(), act)
