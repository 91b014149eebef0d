"""The HTML page of a plan: the answer, its trade-offs, the files that deploy it, and everything that was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from poise.plan.names import NAMES
from poise.plan.plan import Plan
from poise.plan.rows import HEADS, cells, tidy
from poise.plan.scale import Scaled, pool_name
from poise.plan.share import least
from poise.plan.show import basis, certainty, share, spent, what_changes, written
from poise.plan.trial import Trial
from poise.plan.verdict import answer, nothing, slack
from poise.report.chart import WIDTH, Extras, Goal, Line, Scale, chart, swatch
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.lead import BROAD
from poise.report.pieces import (
    Gauge,
    Tile,
    card,
    copied,
    fitted,
    fold,
    gauges,
    grid,
    lead,
    listed,
    section,
    soft,
    text_table,
    tiles,
)
from poise.report.scaling import SHOWN
from poise.report.tidy import write_figures
from poise.report.wording import Kind, duration, significant, write

HOLDS, MISSES, CHOSEN = 2, 1, 0
"""Colours of fleets that hold, of those that do not, and of the plan."""

COLUMNS = (0, 2, 4, 5, 3, 6, 7, 8, 9, 10, 1)
"""The order of `HEADS` on the page: a phone shows the first ones."""

NAMED = 5
"""Fleets whose dots have a name, the best ones."""

SHORT = 26
"""Longest name of a dot."""

BASE = {"cost": "cheapest", "gpus": "smallest", "energy": "thriftiest"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a fleet as an axis. limit: what the SLO asks for, with its name.  most: whether more is better."""

    name: str
    value: Callable[[Trial], float | None]
    kind: Kind = "number"
    unit: str = ""
    log: bool = False
    limit: Goal | None = None
    most: bool = False


def write_page(plan: Plan, folder: Path, files: Iterable[Path] = ()) -> list[Path]:
    """Write `plan.html`, its drawings and its figures into `folder` and return their paths.

    files: those that deploy the plan, which the page shows.
    """
    path = folder / "plan.html"
    text = page(plan, {each.name: each.read_text(encoding="utf-8") for each in files})
    with replacing(path) as file:
        file.write(text.encode())
    return [path, *write_figures(tidy(plan.tried, plan.demand.rate), text, folder)]


def page(plan: Plan, files: Mapping[str, str] | None = None) -> str:
    """The page as text; it loads nothing from outside. files: the text of those that deploy the plan, by name."""
    best, tried = plan.best, plan.found.trials
    parts = [lead(_card(plan), _picture(plan) if tried else "")]
    if best is not None:
        changes = list(what_changes(plan))
        parts += [
            section("What would change it", listed(changes), anchor="changes") if changes else "",
            section("Fleets that hold, the plan first", _table(plan.ranked, "Fleets that hold"), anchor="holds"),
        ]
    charts = [_scatter(plan, _across(plan), up) for up in _measures(plan)[1:]] if tried else []
    parts.append(section("What is traded for what", _legend(), grid(charts), anchor="trade") if charts else "")
    if plan.scaled is not None:
        parts.append(section("With the load", *_grown(plan.scaled), anchor="scaled"))
    if files:
        opened = [fold(name, copied(text, name)) for name, text in files.items()]
        parts.append(section("Files that deploy it", soft("They lie beside this page."), *opened, anchor="files"))
    if best is not None:
        lines = [*certainty(plan, best), *basis(plan, best)]
        parts.append(section("How sure it is, and what it rests on", listed(lines), anchor="basis"))
    parts.append(_all(plan))
    return document(f"A fleet for {plan.ask.model.name}", "".join(parts))


def _all(plan: Plan) -> str:
    """Every fleet that was simulated, and the kinds that were left out."""
    goal = plan.ask.goal
    tried = sorted(plan.found.trials, key=lambda each: (-each.meets(goal), each.value(goal)))
    left = [f"{name}: {why}" for name, why in {**plan.found.why, **plan.units.refused}.items()]
    return section(
        "All that was tried",
        fold(f"{len(tried)} fleets simulated", _table(tried, "All fleets simulated")),
        fold(f"{len(left)} kinds that do not hold or do not fit", listed(left)),
        anchor="tried",
    )


# The answer ---------------------------------------------------------------------------------------------------------


def _card(plan: Plan) -> str:
    best, goal = plan.best, plan.ask.goal
    if best is None:
        first, *rest = nothing(plan)
        return card("Answer", "No plan holds", first, listed(rest), sense="bad")
    kicker = f"The {BASE[goal.minimize]} fleet that holds the SLO at {significant(plan.demand.rate)} req/s"
    figures = tiles(_tiles(plan, best)) + gauges(_gauges(plan, best))
    return card(kicker, best.fleet.written, answer(plan), figures, sense="good")


def _tiles(plan: Plan, best: Trial) -> Iterable[Tile]:
    needed = write(plan.ask.goal.attainment, "share")
    low = least(best)
    share = write(best.attainment, "share") if low is None else f"≥ {write(low, 'share', 3)}"
    spread = "" if best.spread is None or low is not None else f"± {100 * best.spread:.2g} %, "
    if best.fleet.price_per_hour:
        yield Tile("Price", f"${best.fleet.price_per_hour:.2f}/h", f"{best.fleet.devices} devices")
    yield Tile("SLO met", share, f"✓ {spread}target: {needed}", "good")
    if best.confidence is not None:
        wanted = plan.ask.goal.confidence
        target = "by the model's error" if wanted is None else f"target: {write(wanted, 'share')}"
        yield Tile("Confidence", write(best.confidence, "share", 2), target)
    if plan.changes is not None:
        more = "≥ " if plan.changes.beyond else ""
        yield Tile("Headroom", f"{more}{plan.changes.load:.3g}×", "of this load")
    yield Tile("Power", f"{best.watts / 1000:.2f} kW", f"{best.fleet.power_w / 1000:.3g} kW at most")


def _gauges(plan: Plan, best: Trial) -> Iterable[Gauge]:
    """How much of each limit is used by the requests that the goal counts."""
    for name, left in slack(best, plan.ask.goal).items():
        reached, limit = getattr(best, name), getattr(plan.ask.goal.slo, name)
        name_of = NAMES[name]
        yield Gauge(
            f"{name_of[:1].upper()}{name_of[1:]}", 1 - left,
            f"{duration(reached, 3)} of {duration(limit, 3)}: {write(left, 'share', 2)} slack",
        )  # fmt: skip


def _table(trials: Sequence[Trial], label: str) -> str:
    rows = [[cells(each)[at] for at in COLUMNS] for each in trials]
    heads = [HEADS[at].capitalize() if HEADS[at].islower() else HEADS[at] for at in COLUMNS]
    return text_table(heads, rows, label=label, texts=(len(COLUMNS) - 1,))


# Trade-offs ---------------------------------------------------------------------------------------------------------

PRICE = Measure("Price", lambda each: each.fleet.price_per_hour or None, "dollars", "dollars per hour")
DEVICES = Measure("Devices", lambda each: float(each.fleet.devices), "count", "devices")
ENERGY = Measure(
    "Energy", lambda each: None if each.j_per_mtok is None else each.j_per_mtok / 1e6, "number", "joules per token"
)


def _across(plan: Plan) -> Measure:
    """What is minimized."""
    return {"cost": PRICE, "gpus": DEVICES, "energy": ENERGY}[plan.ask.goal.minimize]


def _measures(plan: Plan) -> list[Measure]:
    """What is held against it, the share that meets the SLO first."""
    goal = plan.ask.goal
    needed = write(goal.attainment, "share")
    found = [
        Measure(
            "SLO met",
            lambda each: each.attainment,
            "share",
            limit=Goal(f"target: {needed}", goal.attainment),
            most=True,
        )
    ]
    for name in ("ttft_s", "tpot_s"):
        limit = getattr(goal.slo, name)
        title = f"{NAMES[name][:1].upper()}{NAMES[name][1:]}"
        line = None if limit is None else Goal(f"SLO: {duration(limit)}", limit)
        found.append(Measure(title, _figure(name), "seconds", log=True, limit=line))
    found.append(PRICE if goal.minimize == "energy" else ENERGY)
    return found


def _figure(name: str) -> Callable[[Trial], float | None]:
    return lambda each: getattr(each, name)


def _legend() -> str:
    spots = (("the plan", CHOSEN, "d"), ("holds the SLO", HOLDS, "d"), ("does not hold it", MISSES, "h"))
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="{kind} c{style}" cx="6" cy="6"'
        f' r="4"/></svg>{name}</span>'
        for name, style, kind in spots
    )
    return f'<div class="legend">{keys}<span>Grey line: no fleet tried is better on both axes.</span></div>'


def _picture(plan: Plan) -> str:
    """The share that meets the SLO against what is minimized."""
    across, up = _across(plan), _measures(plan)[0]
    both = (_scatter(plan, across, up, width) for width in (BROAD, WIDTH))
    return f"<div>{fitted(*both)}{_legend()}</div>"


def _scatter(plan: Plan, across: Measure, up: Measure, width: int = WIDTH) -> str:
    """All fleets as dots; the plan last, so that it lies on top."""
    goal, best = plan.ask.goal, plan.best
    made = [trial for trial in plan.found.trials if best is None or not _same(trial, best)]
    known = [
        (trial, x, y)
        for trial in [*made, *([] if best is None else [best])]
        if (up.most or not trial.cut)
        and (x := across.value(trial)) is not None
        and (y := up.value(trial)) is not None
        and (y > 0 or not up.log)
    ]
    named = {id(trial) for trial in plan.ranked[:NAMED]}
    rank = {id(trial): number for number, (trial, *_) in enumerate(known)}
    known.sort(key=lambda each: (each[0] is plan.best, id(each[0]) in named, each[0].meets(goal), rank[id(each[0])]))
    dots = [_dot(plan, trial, x, y, id(trial) in named) for trial, x, y in known]
    extras = Extras(
        goals=[up.limit] if up.limit else [], front=_front([(x, y) for _, x, y in known], up.most), width=width
    )
    return chart(
        f"{up.name} against {across.name.lower()}", dots,
        Scale(across.unit, across.kind, zero=False), Scale(up.unit, up.kind, log=up.log),
        reading=f"{{y}} at {{x}} {across.unit}", dots=True, extras=extras,
    )  # fmt: skip


def _dot(plan: Plan, trial: Trial, x: float, y: float, named: bool) -> Line:
    holds = trial.meets(plan.ask.goal)
    style = CHOSEN if trial is plan.best else HOLDS if holds else MISSES
    word = "the plan" if trial is plan.best else "holds" if holds else "does not hold"
    most = "at most " if trial.cut else ""
    price = f"\n${trial.fleet.price_per_hour:.2f}/h" if trial.fleet.price_per_hour else ""
    met = f"{most}{write(trial.attainment, 'share')} met the SLO"
    text = f"{trial.fleet.written}, {trial.fleet.router}: {word}{price}, {met}"
    return Line(
        trial.fleet.written,
        style,
        [x],
        [y],
        texts=[text],
        hollow=not holds,
        label=trial.fleet.written if named and len(trial.fleet.written) <= SHORT else "",
    )


def _same(one: Trial, other: Trial) -> bool:
    """Whether two trials are of one fleet: the plan is tried again under more seeds."""
    return one.fleet.written == other.fleet.written and one.fleet.router == other.fleet.router


def _front(points: Sequence[tuple[float, float]], most: bool) -> list[tuple[float, float]]:
    """The points that no other beats on both axes, from left to right."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda each: (each[0], -each[1] if most else each[1])):
        if not front or (y > front[-1][1] if most else y < front[-1][1]):
            front.append((x, y))
    return front


# With the load ------------------------------------------------------------------------------------------------------


def _grown(scaled: Scaled) -> list[str]:
    """The demand over time, the replicas that follow it, and every scaler that was tried."""
    across, pool = Scale("time since the start, s", tight=True), scaled.fleet.pools[scaled.pool]
    at, rates = scaled.curves["load"]["arrivals per second"]
    load, time = [Line("arrivals", CHOSEN, at, rates)], Extras(group="time")
    drawn = [
        chart(
            "Arrivals", load, across, Scale("req/s", reach=0.0), reading="{y} req/s at {x} s", steps=True, extras=time
        )
    ]
    lines = [Line("always all", MISSES, [at[0], at[-1]], [float(pool.replicas)] * 2)]
    replicas = scaled.curves.get("replicas", {})
    lines += [
        Line(label, style, *replicas[name])
        for style, (name, label) in enumerate(SHOWN.items())
        if name in replicas and any(replicas[name][1])
    ]
    legend = "".join(swatch(line.name, line.style) for line in lines)
    title, up = f"Replicas of {pool_name(scaled)}", Scale("", "count", reach=0.0)
    drawn.append(chart(title, lines, across, up, reading="{y} at {x} s", steps=True, extras=time))
    rows = [
        (written(each), share(each), spent(each), str(each.ups + each.downs), str(each.cold))
        for each in (scaled.constant, *scaled.tried)
    ]
    heads = ("Scaler", "SLO met", "Spent", "Changes", "Cold requests")
    return [f'<div class="legend">{legend}</div>', grid(drawn), text_table(heads, rows, label="Scalers")]
