"""The published systems that Poise is to hold, built or not: those of `systems.csv`, and others that have a claim."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from poise.claims.find import claim, names
from poise.core.errors import UserError

FILE = Path(__file__).parent / "systems.csv"
"""Names, titles and ids; where something stands for a system that has no claim yet, what it is."""

TIERS = {
    1: "a policy or strategy of its own, with a claim",
    2: "expressed by the cost model, the catalogue, an exporter or a combination of others",
    3: "a question to hardware or architecture",
}

HOW = {
    "planner": "in `poise.plan.training`; most are options of `poise train plan`",
    "export": "`poise train plan` writes its configuration",
    "device": "a row of `poise devices`",
}
"""How to reach what stands for a system, by what it is."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A system. slot, stands: what stands for it, empty where nothing does.  claims: those made of it.

    id: its number in the list, 0 where it is not in it.  tier: as in `TIERS`, 0 where it is not in the list.
    why: the reason where nothing stands for it.
    """

    name: str
    system: str
    title: str
    arxiv: str
    group: str
    id: int = 0
    tier: int = 0
    slot: str = ""
    stands: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    why: str = ""

    @property
    def built(self) -> bool:
        """Whether anything stands for it."""
        return bool(self.slot)


@cache
def listed() -> tuple[Listed, ...]:
    """All systems, in the order of the list, then those beside it."""
    made: dict[int, list[str]] = {}
    for name in names():
        for number in claim(name).paper.ids or [0]:
            made.setdefault(number, []).append(name)
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [_row(row, tuple(made.get(int(row["id"]), ()))) for row in csv.DictReader(file, restval="")]
    return (*rows, *map(_beside, made.get(0, ())))


def _row(row: dict[str, str], claims: tuple[str, ...]) -> Listed:
    slot, stands = row["slot"], tuple(row["stands"].split())
    if claims:
        slot, stands = _stands(claims)
    return Listed(
        row["name"], row["system"], row["title"], row["arxiv"], row["group"], int(row["id"]), int(row["tier"]), slot,
        stands, claims, row["why"],
    )  # fmt: skip


def _beside(name: str) -> Listed:
    about = claim(name)
    slot, stands = _stands((name,))
    return Listed(name, about.system, about.system, about.paper.arxiv, about.paper.group, 0, 0, slot, stands, (name,))


def _stands(claims: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The slot of the first claim and what stands for all of them."""
    return claim(claims[0]).slot, tuple(each for name in claims for each in claim(name).policies)


def find_listed(text: str) -> list[Listed]:
    """The one system of this name or arXiv id, or all of a slot or a group; UserError where there is none."""
    wanted = text.lower().removeprefix("arxiv:").strip()
    one = [each for each in listed() if wanted in (each.name, *each.claims, each.arxiv or None, each.system.lower())]
    slot = [each for each in listed() if wanted in {each.slot, *(claim(name).slot for name in each.claims)}]
    group = [each for each in listed() if wanted in each.group]
    if wanted and (found := one or slot or group):
        return found
    known = [*(name for each in listed() for name in (each.name, *each.claims)), *slots()]
    near = list(dict.fromkeys(get_close_matches(wanted, known, 3, 0.5)))
    hint = f"did you mean {' or '.join(near)}?" if near else f"groups are: {'; '.join(groups())}"
    raise UserError(f"{text!r} is no name, arXiv id, slot or group of a system; {hint}")


def groups() -> list[str]:
    """All groups, in the order in which they are listed."""
    return list(dict.fromkeys(each.group for each in listed()))


def slots() -> list[str]:
    """All slots that something fills."""
    return sorted({each.slot for each in listed() if each.slot})


def by_group(some: Iterable[Listed]) -> dict[str, list[Listed]]:
    """Systems by group."""
    systems = list(some)
    found = {group: [each for each in systems if each.group == group] for group in groups()}
    return {group: each for group, each in found.items() if each}


def how(entry: Listed) -> str:
    """How to reach what stands for a system without a claim."""
    return HOW[entry.slot].format(entry.stands[0])
