"""Servers in the order that their links suggest, and files that are none."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from poise.cli import main

WORDS = (
    "train", "plan", "facebook/opt-13b", "--devices", "H100", "--gpus", "32", "--batch", "32", "--seq", "2048",
    "--tensor", "8", "--pipeline", "4", "--schedules", "one_f_one_b", "--zero", "1",
)  # fmt: skip


def test_no_message_crosses_the_slow_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four servers in a chain of fast links, told out of order: the pipeline follows the chain, either way."""
    chain, names = [2, 0, 3, 1], "abcd"
    fast = {frozenset(pair) for pair in pairwise(chain)}
    rows = [",".join("400" if frozenset((a, b)) in fast else "1" for b in range(4)) for a in range(4)]
    (tmp_path / "links.csv").write_text("\n".join([",".join(names), *rows]))
    words = [*WORDS, "--bandwidths", str(tmp_path / "links.csv"), "--out", str(tmp_path / "plan")]
    assert main([*words, "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)["servers"]
    assert "".join(printed["servers"]) in ("cadb", "bdac") and printed["seconds"] < printed["given_s"]
    assert (tmp_path / "plan" / "hosts").read_text().split() == printed["servers"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1\n1,x\n", "row 2: 'x' is not a number"),
        ("0,1\n1\n", "row 2: 1 values for 2 servers"),
        ("a,b,c\n0,1\n1,0\n", "3 names for 2 rows"),
        ("0,1\n1,0\n", "2 servers for 32 devices in servers of 8: 4"),
    ],
)
def test_what_is_no_file_of_bandwidths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    (tmp_path / "links.csv").write_text(text)
    assert main([*WORDS, "--bandwidths", str(tmp_path / "links.csv")]) == 2
    assert expected in capsys.readouterr().err


def test_a_layout_that_does_not_fill_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "links.csv").write_text("0,1\n1,0\n")
    words = [*WORDS[:6], "16", *WORDS[7:12], "4", "--pipeline", "4", "--zero", "1"]
    assert main([*words, "--bandwidths", str(tmp_path / "links.csv")]) == 2
    assert "does not fill servers of 8 devices with one stage each" in capsys.readouterr().err
