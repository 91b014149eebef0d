"""The first section of a report: the answer as a card, its key figures, and the drawing that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from poise.report.answer import choice, nearest
from poise.report.chart import WIDTH, Extras, Goal, Mark, Room, Scale, chart
from poise.report.drawings import load_axis, swept
from poise.report.figures import ATTAINMENT, COST, GOODPUT, TTFT, Case, Figure
from poise.report.findings import Findings, Judged, Limit
from poise.report.pieces import Sense, Tile, card, fitted, lead, tiles
from poise.report.wording import MISSING, significant, write

BROAD = 780
"""Width of the drawing beside the card on a wide screen, in units."""


def lead_section(
    cases: Sequence[Case], findings: Findings | None, styles: Mapping[str, int], answer: str = ""
) -> str:  # fmt: skip
    """The answer of a comparison or the figures of a run, and SLO met over load where there are several loads.

    cases: those of the curves, in which loads that were only tried in search of a collapse are, too.  answer: the
    sentence that decides a run.
    """
    requested = [case for case in cases if not case.probe]
    if findings is None:
        return lead("".join(_run(case, answer) for case in requested)) if requested else ""
    return lead(_compared(requested, findings), _drawing(cases, findings, styles))


def _run(case: Case, answer: str) -> str:
    """The card of one run."""
    met = ATTAINMENT.value(case.result)
    pick = f"{write(met, 'share')} met the SLO" if met is not None else f"{GOODPUT.text(case.result)} req/s"
    return card("Result", pick, answer or f"With {case.policy}.", tiles(_key(case.result, (GOODPUT, TTFT[4], COST))))


def _key(result: Mapping[str, object], figures: Sequence[Figure]) -> Iterator[Tile]:
    for figure in figures:
        if figure.value(result) is not None:
            yield Tile(figure.label, figure.text(result), figure.margin(result), meaning=figure.meaning)


def judged_first(findings: Findings) -> Judged | None:
    """The load that the answer is about: load 1, or the nearest to it."""
    judged = {each.load: each for each in findings.judged}
    return judged[nearest(judged)] if judged else None


def chosen_policy(findings: Findings) -> str:
    """The policy to take, as the answer has it; empty where there is none, or where nothing sets the policies apart."""
    verdicts = [each.verdict for each in findings.judged if each.verdict.best is not None]
    names = list(dict.fromkeys(name for each in verdicts for name in (each.best or "", *each.differences)))
    return choice(names, verdicts, {each.policy: each.carried or 0.0 for each in findings.limits})


def _compared(cases: Sequence[Case], findings: Findings) -> str:
    judged, chosen = judged_first(findings), chosen_policy(findings)
    if judged is None:
        return card("Answer", "No result yet", "No load is complete.", sense="open")
    verdict = judged.verdict
    here = [case for case in cases if case.load == judged.load]
    case = next((each for each in here if each.policy == (chosen or verdict.best)), None)
    text = findings.answer or str(verdict) or "Fewer than two policies can be compared."
    even = verdict.best is not None and not verdict.unknown
    pick = chosen or ("Any of them" if even else "No verdict" if verdict.best else "Nothing to compare")
    kicker = f"{'Best choice' if chosen else 'Answer'} · figures at {_where(case, judged)}"
    figures = tiles(_tiles(case, findings)) if case else ""
    return card(kicker, pick, text, figures, sense="good" if chosen else "open")


def _where(case: Case | None, judged: Judged) -> str:
    return case.at if case and case.at else judged.title.partition(":")[0]


def _tiles(case: Case, findings: Findings) -> Iterator[Tile]:
    met, goal = ATTAINMENT.value(case.result), findings.target
    if met is not None:
        sense: Sense = "" if goal is None else "good" if met >= goal else "bad"
        small = "" if goal is None else f"{'✓' if met >= goal else '✗'} target: {write(goal, 'share')}"
        yield Tile("SLO met", write(met, "share"), small, sense, ATTAINMENT.meaning)
    limit = next((each for each in findings.limits if each.policy == case.policy), None)
    if limit is not None:
        name = "Headroom" if findings.own else "Carries load"
        yield Tile(name, _carries(limit, findings), _collapse(limit), meaning="highest load carried, load 1 being 1")
    yield from _key(case.result, (COST, TTFT[4]))


def _carries(limit: Limit, findings: Findings) -> str:
    """The highest load that a policy carries."""
    if limit.carried is None:
        return MISSING
    return f"{'≥ ' if limit.beyond is None else ''}{significant(limit.carried, 3)}{'×' if findings.own else ''}"


def _collapse(limit: Limit) -> str:
    if limit.load is not None:
        return f"collapses at {significant(limit.load, 3)}"
    return "carries every load tried" if limit.carried is not None else "carries no load tried"


def _drawing(cases: Sequence[Case], findings: Findings, styles: Mapping[str, int]) -> str:
    """SLO met over load, once for a wide screen and once for a narrow one; empty unless there are two loads."""
    loads = [case.load for case in cases if case.load is not None]
    known = [case for case in cases if ATTAINMENT.value(case.result) is not None]
    if len(set(loads)) < 2 or not known:
        return ""
    lines = [swept(name, style, known, ATTAINMENT) for name, style in styles.items()]
    limit = next((each for each in findings.limits if each.policy == chosen_policy(findings)), None)
    room = None
    if findings.own and limit is not None and limit.carried is not None and limit.carried > 1:
        room = Room(f"headroom {_carries(limit, findings)}", 1.0, limit.carried)
    goals = [] if findings.target is None else [Goal(f"target: {write(findings.target, 'share')}", findings.target)]
    marks = [Mark("load 1", 1.0), *_collapses(limit)]
    both = [
        chart(
            "SLO met over load", [line for line in lines if line.x], load_axis(loads), Scale("", "share"),
            reading="{y} met the SLO at load {x}", dots=True, marks=marks,
            extras=Extras(named=True, group="load", goals=goals, room=room, width=width),
        )
        for width in (BROAD, WIDTH)
    ]  # fmt: skip
    return f"<div>{fitted(*both)}</div>"


def _collapses(limit: Limit | None) -> list[Mark]:
    return [] if limit is None or limit.load is None else [Mark("collapse", limit.load)]
