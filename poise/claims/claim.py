"""A published claim, the criteria it is held to, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from poise.core.errors import UserError
from poise.report.wording import Kind

Verdict = Literal["holds", "holds in part", "fails", "not testable"]
"""What criteria come to; beside these, a result measured with other code is `stale`."""

Trust = Literal["code", "text", "notes", "abstract"]
"""How well the publication is known here: its rules read in its own code, in its text, in notes of others on the text,
or in its abstract alone. The weaker, the less is asked: of an abstract nothing but directions."""


class Source(NamedTuple):
    """A file that an experiment reads, below the folder of data, and where it is published."""

    file: str
    published: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, and what of it is tried here.

    slot, policies: what stands for the system.  others: what it is compared with or used together with.
    headline, conditions: as published.  here: the conditions of the experiment, as far as they differ.
    untestable: why no experiment can decide it; empty where one does.
    """

    system: str
    paper: str
    year: int
    slot: str
    policies: tuple[str, ...]
    headline: str
    conditions: str
    trust: Trust
    here: str = ""
    others: tuple[str, ...] = ()
    data: tuple[Source, ...] = ()
    untestable: str = ""

    def __post_init__(self) -> None:
        if self.trust not in get_args(Trust):
            raise UserError(f"trust = {self.trust!r}: give one of {', '.join(get_args(Trust))}")
        if bool(self.here) == bool(self.untestable):
            raise UserError(f"{self.system}: say either what is tried `here` or why it is `untestable`")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that must come out for the claim to hold.

    paper: what was published.  measured: what came out here, with its interval.  met: None where chance decides.
    headline: whether it is the claim itself and not what else the paper says of it.  why: the reason, where not met.
    """

    asks: str
    paper: str
    measured: str
    met: bool | None
    headline: bool = False
    why: str = ""


class Point(NamedTuple):
    """A figure at one place of an axis; `half` is half of its 95 % interval, None where there is none."""

    x: float
    value: float | None
    half: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over an axis, with a line for each policy."""

    title: str
    across: str
    kind: Kind
    lines: Mapping[str, Sequence[Point]]


@dataclass(frozen=True, slots=True)
class Findings:
    """What an experiment came to."""

    criteria: Sequence[Criterion]
    curves: Sequence[Curve] = ()


def verdict(criteria: Sequence[Criterion]) -> Verdict:
    """What criteria come to.

    holds: all are met.  fails: no headline is met, and at least one of them is refuted.  not testable: chance decides
    every headline.  holds in part: anything between.
    """
    headlines = [each.met for each in criteria if each.headline]
    if all(met is None for met in headlines):
        return "not testable"
    if not any(headlines):
        return "fails"
    return "holds" if all(each.met for each in criteria) else "holds in part"
