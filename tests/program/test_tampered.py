"""Programs of all schedules with one change each: what the proof accepts gives the same weights, run on numbers.

python -m tests.program.test_tampered 400      # changes to each schedule; prints what was accepted
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Program
from tests.depth import examples
from tests.program.changed import changed
from tests.program.numbers import Wrong, weights_of

REASONS = {
    "neighbours": "order", "swap": "order", "move": "order", "lane": "another lane of its rank", "drop": "not done",
    "argument": "an argument that its kind does not use", "read": "reads something else",
}  # fmt: skip


class Found(NamedTuple):
    """How many changes were refused, and those that were accepted, by what they are."""

    refused: int
    accepted: Counter[str]


def changes(name: str, count: int, chance: Random) -> Iterator[tuple[str, Program]]:
    """So many changed Programs of a schedule."""
    program = program_of(make(name, 4, 8))
    while count:
        what, other = changed(program, chance)
        if other != program:
            count -= 1
            yield what, other


def tamper(name: str, count: int) -> Found:
    """Change the Program of a schedule `count` times; AssertionError for an accepted one that trains otherwise."""
    chance = Random(name)
    wanted = weights_of(program_of(make(name, 4, 8)), chance)
    accepted = Counter[str]()
    for what, other in changes(name, count, chance):
        try:
            other.prove()
        except ProgramError:
            continue
        accepted[what] += 1
        assert weights_of(other, chance) == wanted, f"{name}: {what} is accepted"
    return Found(count - accepted.total(), accepted)


@pytest.mark.deep
@pytest.mark.parametrize("name", names())
def test_what_the_proof_accepts_trains_the_same(name: str) -> None:
    found = tamper(name, examples(400))
    assert found.refused > found.accepted.total()


def test_numbers_find_most_of_what_the_proof_refuses() -> None:
    """So that they could find what it should refuse."""
    chance = Random(1)
    wanted = weights_of(program_of(make("zb_h1", 4, 8)), chance)
    refused = found = 0
    for _, other in changes("zb_h1", 60, chance):
        try:
            other.prove()
        except ProgramError:
            refused += 1
            try:
                found += weights_of(other, chance) != wanted
            except (Wrong, ArithmeticError, LookupError, TypeError, ValueError):
                found += 1
    assert found > refused * 3 / 4


def main(count: int) -> None:
    """Print the counts over all schedules."""
    found = [tamper(name, count) for name in names()]
    total = sum((each.accepted for each in found), Counter[str]())
    refused = sum(each.refused for each in found)
    print(f"{refused + total.total():,} changes to {len(found)} schedules: {refused:,} are refused")
    print(f"{total.total():,} are accepted, and give the same weights:")
    reasons = Counter[tuple[str, str]]()
    for what, each in total.items():
        change, kind = what.split()
        reasons[REASONS[change], "" if REASONS[change] in ("order", "another lane of its rank") else f": {kind}"] += (
            each
        )
    for (reason, kind), each in reasons.most_common():
        print(f"{each:7,}  {reason}{kind}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
