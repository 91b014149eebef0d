"""Line charts as inline SVG with colours from the page's style sheet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from poise.report.axis import Axis, fit
from poise.report.path import Places, area, scaled, trail
from poise.report.wording import Kind

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 26, 44

COLOURS = 8
"""Colours in the palette of the page's style sheet; further lines are distinguished by dashes."""

_DASHES = ("", "7 3", "2 3", "9 3 2 3")

_LETTER, _NAME, _LINE = 6.9, 7.6, 14
"""Width of a letter, of one of a line's name, and height of a line of text, in units of a drawing."""

_NEAR = 25
"""Tenths of a unit within which two lines look like one."""

_WRITTEN = 7
"""Longest text of a tick; a longer number is shortened, as in 100 k."""


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; `style` picks colour and dash.

    NaN in `y` breaks it. low, high: a band around it, NaN where there is none.  texts: tooltip text of each point.
    hollow: its dots are rings.  label: written beside its last dot where there is room.
    """

    name: str
    style: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    texts: Sequence[str] = ()
    hollow: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis's label and scale. reach: a value that it includes at least.  zero, tight: see `axis.fit`."""

    label: str
    kind: Kind = "number"
    log: bool = False
    reach: float = math.nan
    zero: bool = True
    tight: bool = False

    def fit(self, values: Sequence[float], start: float, end: float) -> Axis:
        """The axis that holds `values` too."""
        return fit([*values, self.reach], start, end, log=self.log, kind=self.kind, zero=self.zero, tight=self.tight)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position on the x axis as an upright line, with the range that is certain to contain it (None: no end).

    style: that of the line it belongs to; None for one that belongs to all lines and has a label.
    """

    name: str
    x: float | None
    style: int | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """A level line with its name, such as a limit; `across`: an upright one at an x value instead."""

    name: str
    at: float
    across: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """A named distance between two x values, drawn as an arrow near the foot of the plot."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Extras:
    """Additions to a chart. named: the lines' names stand at their ends.  group: charts whose x axes are read together.

    goals: limits.  room: a distance.  front: points of a step line below everything, such as a frontier.
    width: of the drawing, in units.
    """

    named: bool = False
    group: str = ""
    goals: Sequence[Goal] = ()
    room: Room | None = None
    front: Sequence[tuple[float, float]] = ()
    width: int = WIDTH


PLAIN = Extras()
"""No additions."""


def dash(style: int) -> str:
    """The SVG dash pattern of a line's style: another one each time the colours are used up."""
    return _DASHES[style // COLOURS % len(_DASHES)]


def colour(style: int) -> str:
    """The class of the style sheet that gives a line's style its colour."""
    return f"c{style % COLOURS}"


def swatch(name: str, style: int) -> str:
    """One entry of a legend: a piece of the line and its name."""
    line = f'<line x1="1" y1="6" x2="27" y2="6" class="l {colour(style)}" stroke-dasharray="{dash(style)}"/>'
    return f'<span class="key"><svg viewBox="0 0 28 12" aria-hidden="true">{line}</svg>{escape(name)}</span>'


def chart(
    title: str, lines: Sequence[Line], x: Scale, y: Scale, *,
    reading: str, dots: bool = False, steps: bool = False, marks: Sequence[Mark] = (), extras: Extras = PLAIN,
) -> str:  # fmt: skip
    """A figure with its title, axes and lines; says so where nothing can be drawn.

    reading: the text of a point, with `{x}` and `{y}` in it.  dots: mark every point.
    steps: a value holds until the next point.
    """
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.y)]
    if not drawn:
        return f'<figure>{caption}<p class="none">Nothing to draw: no request has this figure.</p></figure>'
    picture = plot(title, drawn, x, y, reading=reading, dots=dots, steps=steps, marks=marks, extras=extras)
    return f"<figure>{caption}{picture}</figure>"


def plot(
    title: str, lines: Sequence[Line], x: Scale, y: Scale, *,
    reading: str, dots: bool = False, steps: bool = False, marks: Sequence[Mark] = (), height: int = HEIGHT,
    extras: Extras = PLAIN,
) -> str:  # fmt: skip
    """The drawing of a `chart` without its frame; some line has a value."""
    floor = height - BOTTOM
    names = [*(line.name for line in lines), *(each.name for each in extras.goals)]
    longest = max(map(len, names)) if extras.named else 0
    right = extras.width - RIGHT - (_NAME * min(longest, 20) + 8 if longest else 0)
    sides = [each for each in extras.goals if each.across]
    wide = [v for line in lines for v in line.x] + [each.at for each in sides] + [at for at, _ in extras.front]
    across = x.fit(wide, LEFT, right)
    values = [v for line in lines for v in (*line.y, *line.low, *line.high)]
    up = y.fit([*values, *(each.at for each in extras.goals if not each.across)], floor, TOP)
    turns = _shared(lines, across, up) if dots and any(len(line.x) > 1 for line in lines) else [None] * len(lines)
    look = _Look(across, up, dots, steps, exact=bool(reading))
    body = "".join(_line(line, look, each) for line, each in zip(lines, turns, strict=True))
    data = "".join(scale_data(name, axis) for name, axis in (("x", across), ("y", up)))
    ends = _names(lines, extras.goals, across, up) if extras.named else ()
    upright = "".join(_marks(marks, across, up))
    group = f' data-group="{escape(extras.group)}"' if extras.group else ""
    big = " big" if extras.width > WIDTH else ""
    return (
        f'<svg class="chart{big}" viewBox="0 0 {extras.width} {height}" role="img"'
        f' aria-label="{escape(title)}" data-read="{escape(reading)}"{data}{group}{" data-steps" if steps else ""}>'
        f"{frame(across, up, x, y, extras.width)}{_extras(extras, across, up)}{upright}{body}"
        f"{_labels(lines, extras, across, up)}{''.join(ends)}</svg>"
    )


def scale_data(name: str, axis: Axis) -> str:
    """The data with which the script turns a position back into a value."""
    numbers = ",".join(f"{value:.9g}" for value in (axis.low, axis.high, axis.start, axis.end))
    return f' data-{name}="{numbers},{int(axis.log)},{axis.kind}"'


def frame(across: Axis, up: Axis, x: Scale, y: Scale, width: int = WIDTH) -> str:
    """Grid, ticks and labels; a tick that would touch the one before stays without text."""
    parts, free = [], -math.inf
    for value, text in across.ticks():
        text, at = _short(value, text), across.place(value)
        half = 3.6 * len(text)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"/>')
        if at - half > free and at + half < width:
            parts.append(f'<text x="{at:.1f}" y="{up.start + 17:.1f}" text-anchor="middle">{text}</text>')
            free = at + half
    for value, text in up.ticks():
        at = up.place(value)
        parts.append(f'<line class="g" x1="{across.start}" x2="{across.end}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{across.start - 6}" y="{at + 4:.1f}" text-anchor="end">{_short(value, text)}</text>')
    middle, foot = (across.start + across.end) / 2, up.start + BOTTOM - 6
    parts.append(f'<text class="a" x="{middle:.0f}" y="{foot:.0f}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(f'<text class="a" x="4" y="13">{escape(y.label)}</text>' if y.label else "")
    return "".join(parts)


def _short(value: float, text: str) -> str:
    """The text of a tick, or a shorter one of the same number, so that no edge cuts it."""
    if len(text) < _WRITTEN or not text.replace(",", "").isdigit():
        return text
    size, unit = (1e9, "G") if value >= 1e9 else (1e6, "M") if value >= 1e6 else (1e3, "k")
    return f"{value / size:g} {unit}"


def _extras(extras: Extras, across: Axis, up: Axis) -> str:
    """The frontier, limits and the named distance."""
    parts = []
    if extras.front:
        places = [(across.place(x), up.place(y)) for x, y in extras.front]
        steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
        parts.append(f'<path class="front" d="M{places[0][0]:.1f} {places[0][1]:.1f}{steps}"/>')
    for each in extras.goals:
        if each.across:
            at = across.place(each.at)
            parts.append(f'<line class="goal" x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"/>')
            parts.append(f'<text class="a" x="{at + 4:.1f}" y="{up.end + 12}">{escape(each.name)}</text>')
        else:
            at, side = up.place(each.at), _beside(each, up)
            parts.append(f'<line class="goal" x1="{across.start}" x2="{across.end:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
            middle = (across.start + across.end) / 2
            text = f'<text class="a" x="{middle:.1f}" y="{side:.1f}" text-anchor="middle">{escape(each.name)}</text>'
            parts.append("" if extras.named else text)  # named lines have it among their names
    return "".join(parts) + _room(extras.room, across, up)


def _beside(goal: Goal, up: Axis) -> float:
    """The height of a level's name: above its line, or below it at the top of the plot."""
    at = up.place(goal.at)
    return at + 14 if at - 6 < up.end + 8 else at - 5


def _room(room: Room | None, across: Axis, up: Axis) -> str:
    """An arrow with both ends, and its name in the middle above it."""
    if room is None:
        return ""
    low, high, y = across.place(room.low), across.place(min(room.high, across.high)), up.start - 12
    heads = f"M{low + 6:.1f} {y - 4}L{low:.1f} {y}l6 4" + f"M{high - 6:.1f} {y - 4}L{high:.1f} {y}l-6 4"
    middle, half = (low + high) / 2, _LETTER * len(room.name) / 2
    at = min(max(middle, across.start + half), across.end - half)
    return (
        f'<path class="room" d="M{low:.1f} {y}H{high:.1f}{heads}"/>'
        f'<text class="a room-name" x="{at:.1f}" y="{y - 7}" text-anchor="middle">{escape(room.name)}</text>'
    )


def _marks(marks: Sequence[Mark], across: Axis, up: Axis) -> Iterator[str]:
    """Upright lines; those at one place share it, each with its piece of the dashes."""
    places = [
        (mark, across.place(mark.x)) for mark in marks if mark.x is not None and across.low <= mark.x <= across.high
    ]
    for number, (mark, at) in enumerate(places):
        spot = f'x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"'
        if mark.style is None:
            half = _LETTER * len(mark.name) / 2
            middle = min(max(at, across.start + half), across.end - half)
            yield f'<line class="m own" {spot}/>'
            yield f'<text x="{middle:.1f}" y="{up.end - 5}" text-anchor="middle">{escape(mark.name)}</text>'
            continue
        same = [n for n, (other, x) in enumerate(places) if other.style is not None and abs(x - at) < 2]
        turn = f' stroke-dasharray="5 {9 * len(same) - 5}" stroke-dashoffset="{-9 * same.index(number)}"'
        yield f'<line class="m {colour(mark.style)}"{turn if len(same) > 1 else ""} {spot}/>'


def span(mark: Mark, across: Axis) -> tuple[float, float]:
    """Where the sure range of a mark begins and ends."""
    low = across.start if mark.low is None else across.place(max(mark.low, across.low))
    high = across.end if mark.high is None else across.place(min(mark.high, across.high))
    return low, high


def _names(lines: Sequence[Line], goals: Sequence[Goal], across: Axis, up: Axis) -> Iterator[str]:
    """The name of each line and level at the height of its end, moved apart where they would touch."""
    ends = [(up.place(each.at), each.name, "goal", across.end) for each in goals if not each.across]
    for line in lines:
        last = max((n for n, y in enumerate(line.y) if math.isfinite(y)), key=lambda n: line.x[n])
        ends.append((up.place(line.y[last]), line.name, f"l {colour(line.style)}", across.place(line.x[last])))
    ends.sort(key=lambda each: each[0])
    for (at, name, look, begin), top in zip(ends, _apart([at for at, *_ in ends], up), strict=True):
        x, short = across.end, name if len(name) <= 20 else f"{name[:19]}…"
        yield f'<path class="{look} lead-in" d="M{begin:.1f} {at:.1f}H{x:.1f}L{x + 6:.1f} {top:.1f}h4" fill="none"/>'
        yield f'<text class="a name" x="{x + 12:.1f}" y="{top + 4:.1f}">{escape(short)}</text>'


def _apart(heights: Sequence[float], up: Axis) -> list[float]:
    """Heights from the top down, moved until lines of text fit, within the plot where there is room for all."""
    tops: list[float] = []
    for at in heights:
        tops.append(max(at, tops[-1] + _LINE) if tops else max(at, up.end + 4))
    for number in range(len(tops) - 1, -1, -1):
        tops[number] = min(tops[number], up.start - _LINE * (len(tops) - 1 - number))
    return tops


def _labels(lines: Sequence[Line], extras: Extras, across: Axis, up: Axis) -> str:
    """The labels of dots, each beside its dot; one that would touch another or leave the plot is left out."""
    levels = [(_beside(each, up), _LETTER * len(each.name) / 2) for each in extras.goals if not each.across]
    middle = (across.start + across.end) / 2
    taken = [(middle - half, base - 11, middle + half, base + 3) for base, half in levels]
    taken += [
        (across.place(x), up.place(y) - 1, across.place(next_x), up.place(y) + 1)
        for (x, y), (next_x, _) in pairwise(extras.front)
    ]
    parts = []
    for line in reversed(lines):  # the last is drawn on top
        if not line.label:
            continue
        x, y, wide = across.place(line.x[-1]), up.place(line.y[-1]), _NAME * len(line.label)
        for left, base in (
            (x + 8, y + 4),
            (x + 6, y - 8),
            (x + 6, y + 16),
            (x + 6, y + 34),
            (x - 8 - wide, y + 4),
            (x - wide / 2, y - 9),
        ):
            box = (left, base - 11, left + wide, base + 3)
            inside = across.start <= left and box[2] <= across.end + RIGHT and up.end <= box[1] and box[3] <= up.start
            if inside and not any(_touch(box, other) for other in taken):
                taken.append(box)
                parts.append(f'<text class="a name" x="{left:.1f}" y="{base:.1f}">{escape(line.label)}</text>')
                break
    return "".join(parts)


def _touch(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    """Whether two boxes overlap."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


Turn = tuple[int, int]
"""The place of a line among those that run through the same two points, and how many they are."""


def _shared(lines: Sequence[Line], across: Axis, up: Axis) -> list[list[Turn]]:
    """For each line and each of its points: its turn among the lines that reach it from the same point.

    Lines on top of one another would look like the last one alone.
    """
    pieces = []
    for line in lines:
        places = zip(_places(line.x, across), _places(line.y, up), strict=True)
        points = [tuple(None if each is None else round(each / _NEAR) for each in point) for point in places]
        pieces.append(list(zip([points[0], *points], points, strict=False)))
    all_of = Counter(piece for some in pieces for piece in set(some))
    before: Counter[object] = Counter()
    turns = []
    for some in pieces:
        turns.append([(before[piece], all_of[piece]) for piece in some])
        before.update(set(some))
    return turns


@dataclass(frozen=True, slots=True)
class _Look:
    """How the lines of a chart are drawn. exact: dots carry their values."""

    across: Axis
    up: Axis
    dots: bool
    steps: bool
    exact: bool


def _line(line: Line, look: _Look, turns: Sequence[Turn] | None) -> str:
    """One line: its band, its unbroken pieces and dots."""
    tint, up = colour(line.style), look.up
    xs, ys = _places(line.x, look.across), _places(line.y, up)
    parts = []
    if line.low:
        band = area(xs, _places(line.low, up), _places(line.high, up), look.steps)
        parts.append(f'<path class="b {tint}" d="{band}"/>' if band else "")
    pattern = f' stroke-dasharray="{dash(line.style)}"' if dash(line.style) else ""
    for first, last, (turn, of) in _runs(turns, len(xs)):
        shared = f' stroke-dasharray="6 {6 * (of - 1)}" stroke-dashoffset="{-6 * turn}"' if of > 1 else pattern
        path = trail(xs[first:last], ys[first:last], look.steps)
        parts.append(f'<path class="l {tint}"{shared} d="{path}"/>' if path else "")
    spots = "".join(_dots(line, look, xs, ys, turns or [(0, 1)] * len(xs))) if look.dots else ""
    return f'<g data-name="{escape(line.name)}">{scaled("".join(parts))}{spots}</g>'


def _dots(line: Line, look: _Look, xs: Places, ys: Places, turns: Sequence[Turn]) -> Iterator[str]:
    """A dot for each point; of several at one place the earlier ones are larger, so that each shows."""
    for at, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if x is None or y is None:
            continue
        turn, of = turns[at]
        text = f' data-text="{escape(line.texts[at])}"' if line.texts and line.texts[at] else ""
        exact = f' data-v="{line.x[at]:.6g},{line.y[at]:.6g}"' if look.exact else ""
        size = 3 + 1.6 * min(of - 1 - turn, 4)
        kind = "h" if line.hollow else "d"
        kind, place = f"{kind} {colour(line.style)}", f'cx="{x / 10:.1f}" cy="{y / 10:.1f}"'
        yield f'<circle class="{kind}" {place} r="{size:g}"{exact}{text}/>'


def _runs(turns: Sequence[Turn] | None, count: int) -> Iterator[tuple[int, int, Turn]]:
    """Pieces of a line with one look: where each begins and ends (the piece after it begins at its last point)."""
    if not turns or all(of == 1 for _, of in turns):
        yield 0, count, (0, 1)
        return
    first = 0
    for at in range(1, count):
        if at + 1 == count or turns[at + 1] != turns[at]:
            yield first, at + 1, turns[at]
            first = at
    if count == 1:
        yield 0, 1, turns[0]


def _places(values: Sequence[float], axis: Axis) -> list[int | None]:
    """Tenths of a unit within the axis; None where there is no value."""
    low, high = sorted((axis.start, axis.end))
    return [round(10 * min(max(axis.place(value), low), high)) if math.isfinite(value) else None for value in values]
