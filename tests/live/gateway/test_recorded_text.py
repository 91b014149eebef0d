"""Bodies are recorded where that is asked for, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.live.clock import now
from poise.live.http.loop import run
from poise.live.record import Recorder

from .live import Live


@pytest.mark.parametrize("text", [False, True])
def test_a_prompt_is_in_the_file_of_texts_alone(tmp_path: Path, text: bool) -> None:
    async def main() -> None:
        async with Live(1) as live:
            live.gateway.record(Recorder(tmp_path / "day.jsonl", dict, now(), text=text))
            assert (await live.ask("a secret of mine").wait()).whole
            assert (await live.ask("and another", stream=False).wait()).whole

    run(main())
    assert "secret" not in (tmp_path / "day.jsonl").read_text()
    kept = tmp_path / "day.text.jsonl"
    assert kept.exists() == text
    if text:
        bodies = {row[0]: json.loads(row[1])["prompt"] for row in map(json.loads, kept.read_text().splitlines())}
        assert bodies == {0: "a secret of mine", 1: "and another"}
