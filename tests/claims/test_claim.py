"""A claim is data: its file says all, in few lines, and a mistake in it is one line with file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.claims import find
from poise.core.errors import UserError

WHOLE = """
system = "Mine"
paper = {arxiv = "2401.00001", year = 2024, trust = "text", group = "caches"}
slot = "router"
policies = ["preble"]
published = "twice as fast"
conditions = "one device"
here = "the same"

[headline.faster]
asks = "faster"
paper = "twice"
test = {least = 1.5}
"""


def read(tmp_path: Path, text: str) -> str:
    """What is said of a file, nothing where it is a claim."""
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    try:
        find.read_claim(file)
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def test_a_whole_claim_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == ""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"Mine"', '"Mine', "mine.toml: is no TOML: "),
        ("slot =", "slott =", "mine.toml: slott: unknown key; did you mean slot?"),
        ('slot = "router"\n', "", "mine.toml: slot: is missing; give the slot that it fills"),
        ('"2401.00001"', '"2401"', "mine.toml: paper.arxiv: '2401' is not valid"),
        ('"text"', '"hearsay"', "mine.toml: paper.trust: 'hearsay' must be"),
        ("year = 2024", "year = 1924", "mine.toml: paper.year: 1924 must be above 1970; give the year"),
        ('here = "the same"\n', "", "mine.toml: has criteria or `here` alone; give both"),
        ("{least = 1.5}", "{}", "mine.toml: headline.faster.test: has no bound; give one of least"),
        ("{least = 1.5}", '{least = "1.5"}', "mine.toml: headline.faster.test.least: '1.5' is a text"),
        ("{least = 1.5}", "{least = 1.5, at = 0}", "mine.toml: headline.faster.test.at: 0 must be at least 1"),
        ('paper = "twice"', 'paper = "twice"\nsince = 2026-11-22', "faster.since is not after the first run"),
        ("test =", "tset =", "mine.toml: headline.faster.tset: unknown key; did you mean test?"),
    ],
)
def test_a_mistake_is_one_line_with_file_field_rule_and_cure(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert old in WHOLE
    assert expected in read(tmp_path, WHOLE.replace(old, new))


def test_a_key_stands_once(tmp_path: Path) -> None:
    assert "has a key twice" in read(tmp_path, WHOLE + '[notes]\nfaster = "too"\n')


def test_nothing_to_try_needs_its_reason(tmp_path: Path) -> None:
    head = WHOLE.partition('here = "the same"')[0]
    assert "says neither what must come out nor why nothing can" in read(tmp_path, head)
    assert read(tmp_path, head + 'lacking = "its data"\n') == ""


def test_seeds_are_a_number_or_from_and_at_most(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for text, rounds in (("seeds = 5", (5, 5)), ("seeds = [5, 20]", (5, 20))):
        file.write_text(WHOLE.replace('here = "the same"', f'here = "the same"\n{text}'), encoding="utf-8")
        assert find.read_claim(file).rounds == rounds


def test_what_is_left_out_follows_from_the_rest() -> None:
    """Without labels, the policies of the slot are compared by name; an axis of rates needs no name."""
    about = find.claim("preble")
    assert about.compare == {"round_robin": {"router": "round_robin"}, "preble": {"router": "preble"}}
    assert about.sweeps["load"].across == "load, req/s"
    assert find.claim("kv_runahead").compare == {}  # a model has no slot to compare policies in
    assert find.claim("token_weave").labels == list(find.claim("token_weave").settings)


@pytest.mark.parametrize("name", find.names())
def test_a_claim_fits_a_screen_or_two(name: str) -> None:
    lines = (find.FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    criteria = len(find.claim(name).criteria)
    about = find.claim(name)
    parts = len(about.sweeps) + len(about.runs) + len(about.capacities) + len(about.points)
    assert len(lines) <= 35 + 7 * max(criteria, 1) + 10 * parts
    assert max(map(len, lines)) <= 125
