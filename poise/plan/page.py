"""The HTML page of a plan: the answer, its trade-offs, and everything that was tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from poise.plan.plan import Plan
from poise.plan.rows import HEADS, cells, tidy
from poise.plan.scale import Scaled, pool_name
from poise.plan.show import remarks, share, spent, written
from poise.plan.trial import Trial
from poise.plan.verdict import answer, nothing
from poise.report.chart import Line, Scale, chart, swatch
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import fold, grid, section, table
from poise.report.scaling import SHOWN
from poise.report.tidy import write_figures

HOLDS, MISSES, CHOSEN = 2, 7, 0
"""Colours of fleets that hold, of those that do not, and of the plan."""

Axis = tuple[str, Callable[[Trial], float | None], bool]
"""An axis: its label, the figure, and whether it is logarithmic."""


def write_page(plan: Plan, folder: Path) -> list[Path]:
    """Write `plan.html`, its drawings and its figures into `folder` and return their paths."""
    path, text = folder / "plan.html", page(plan)
    with replacing(path) as file:
        file.write(text.encode())
    return [path, *write_figures(tidy(plan.tried, plan.demand.rate), text, folder)]


def page(plan: Plan) -> str:
    """The page as text; it loads nothing from outside."""
    best = plan.best
    title = f"A fleet for {plan.ask.model.name}"
    if best is None:
        body = section(
            "No plan holds", f'<p class="answer">{escape(answer(plan))}</p>', _list(nothing(plan)), anchor="plan"
        )
    else:
        lines = f'<p class="answer">{escape(answer(plan))}</p>'
        body = section("The plan", lines, _list(list(remarks(plan, best))), anchor="plan")
        body += section("Fleets that hold, the plan first", _table(plan.ranked), anchor="holds")
    body += section("What is traded for what", _legend(), grid(_charts(plan), pairs=True), anchor="trade")
    if plan.scaled is not None:
        body += section("With the load", *_grown(plan.scaled), anchor="scaled")
    tried = sorted(plan.found.trials, key=lambda each: (-each.meets(plan.ask.goal), each.value(plan.ask.goal)))
    left = [f"{name}: {why}" for name, why in {**plan.found.why, **plan.units.refused}.items()]
    body += section(
        "All that was tried",
        fold(f"{len(tried)} fleets simulated", _table(tried)),
        fold(f"{len(left)} kinds that do not hold or do not fit", _list(left)),
        anchor="tried",
    )
    return document(title, f"<header><h1>{escape(title)}</h1></header>{body}", style=_OWN)


_OWN = "ul{padding-left:1.2em}td:first-child,th:first-child{white-space:nowrap;text-align:left}"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _table(trials: Sequence[Trial]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(each)) + "</tr>" for each in trials)
    return table(head, body)


def _grown(scaled: Scaled) -> list[str]:
    """The demand over time, the replicas that follow it, and every scaler that was tried."""
    across, pool = Scale("time since the start, s"), scaled.fleet.pools[scaled.pool]
    at, rates = scaled.curves["load"]["arrivals per second"]
    load = [Line("arrivals", CHOSEN, at, rates)]
    drawn = [
        chart("Arrivals per second", load, across, Scale("per second", reach=0.0), reading="{y} at {x} s", steps=True)
    ]
    lines = [Line("always all", MISSES, [at[0], at[-1]], [float(pool.replicas)] * 2)]
    replicas = scaled.curves.get("replicas", {})
    lines += [
        Line(said, style, *replicas[name])
        for style, (name, said) in enumerate(SHOWN.items())
        if name in replicas and any(replicas[name][1])
    ]
    legend = "".join(swatch(line.name, line.style) for line in lines)
    title, up = f"Replicas of {pool_name(scaled)}", Scale("replicas", "count", reach=0.0)
    drawn.append(chart(title, lines, across, up, reading="{y} at {x} s", steps=True))
    head = "".join(f"<th>{name}</th>" for name in ("scaler", "SLO met", "spent", "changes", "cold requests"))
    rows = "".join(
        f"<tr><td>{escape(written(each))}</td><td>{escape(share(each))}</td><td>{escape(spent(each))}</td>"
        f"<td>{each.ups + each.downs}</td><td>{each.cold}</td></tr>"
        for each in (scaled.constant, *scaled.tried)
    )
    return [f'<div class="legend">{legend}</div>', grid(drawn, pairs=True), table(head, rows)]


def _legend() -> str:
    spots = (("the plan", CHOSEN), ("holds the SLO", HOLDS), ("does not", MISSES))
    return '<div class="legend">' + "".join(_spot(name, style) for name, style in spots) + "</div>"


def _spot(name: str, style: int) -> str:
    dot = f'<svg viewBox="0 0 12 12" aria-hidden="true"><circle class="d c{style}" cx="6" cy="6" r="4"/></svg>'
    return f'<span class="key">{dot}{escape(name)}</span>'


def _charts(plan: Plan) -> list[str]:
    """The objective against each part of the latency and against energy."""
    aim = plan.ask.goal.minimize
    price: Axis = ("dollars per hour", lambda each: each.fleet.price_per_hour or None, False)
    count: Axis = ("devices", lambda each: float(each.fleet.devices), False)
    energy: Axis = ("joules per token", lambda each: None if each.j_per_mtok is None else each.j_per_mtok / 1e6, False)
    across = {"cost": price, "gpus": count, "energy": energy}[aim]
    share = f"{100 * plan.ask.goal.attainment:.4g} % of the requests"
    ups: list[Axis] = [
        (f"seconds to first token for {share}", lambda each: each.ttft_s, True),
        (f"seconds per output token for {share}", lambda each: each.tpot_s, True),
        ("share that meets the SLO", lambda each: each.attainment, False),
        price if aim == "energy" else energy,
    ]
    return [_scatter(plan, across, up) for up in ups]


def _scatter(plan: Plan, across: Axis, up: Axis) -> str:
    """All fleets as dots; the plan last, so that it lies on top."""
    chosen = [] if plan.best is None else [plan.best]
    groups = [
        (MISSES, [each for each in plan.found.trials if not each.meets(plan.ask.goal) and not each.cut]),
        (HOLDS, [each for each in plan.found.trials if each.meets(plan.ask.goal)]),
        (CHOSEN, chosen),
    ]
    dots = [
        Line(each.fleet.written, style, [x], [y], said=[f"{each.fleet.written}, {each.fleet.router}"])
        for style, trials in groups
        for each in trials
        if (x := across[1](each)) is not None and (y := up[1](each)) is not None and y > 0
    ]
    name = f"{up[0]} over {across[0]}"
    return chart(
        name[:1].upper() + name[1:], dots, Scale(across[0], log=across[2]), Scale(up[0], log=up[2]),
        reading=f"{{y}} at {{x}} {across[0]}", dots=True,
    )  # fmt: skip
