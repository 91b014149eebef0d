"""The examples of a property follow from its test alone: not from what ran before, nor from other sources."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[tuple[int, float, str]]:
    """What a property meets."""
    found: list[tuple[int, float, str]] = []

    @settings(max_examples=300)
    @given(st.integers(), st.floats(allow_nan=False), st.text())
    def meet(number: int, share: float, name: str) -> None:
        found.append((number, share, name))

    meet()
    return found


@pytest.mark.skipif(not settings().derandomize, reason="this profile explores")
def test_examples_do_not_follow_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "novel.py").write_text(f"FOUND = {[1000 + 7 * each for each in range(300)]}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("novel")
    assert drawn() == before
