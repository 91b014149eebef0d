"""The page: well-formed, self-contained, of bounded size; it says what the results say, and what is missing."""

import re
from dataclasses import replace
from html import escape

import pytest

from poise.core.errors import UserError
from poise.core.records.blame import MEANING
from poise.core.records.records import NOT_YET, UNFINISHED, ReplicaStats
from poise.core.spec import Belief
from poise.core.units import ps
from poise.report.figures import ATTAINMENT, COMPARED
from poise.report.html import html_report, page
from poise.report.lead import chosen_policy
from poise.report.story import Story, StoryLine
from poise.report.summary import Unit, plain, unit
from poise.report.wording import belief_line, duration

from .pages import LIMITS, SLO, SWEEP, about, case, case_of, crowd, findings
from .reader import read
from .runs import Row, a_run

FOUND = findings(SWEEP, limits=LIMITS, about_limits=["A rule."], intervals="± is half.", target=0.9)
COMPARISON = page(SWEEP, about(slo=SLO), FOUND)
RUN = page([case("fair", None, 1.0)], about())

BOTH = ["answer", "summary", "latency", "where-time-went", "replicas", "slowest", "every-figure", "notes", "provenance"]


def test_the_answer_is_first_and_the_belief_last():
    words = read(COMPARISON).sections
    assert next(iter(words)) == "answer" and list(words)[-1] == "provenance"
    assert words["answer"][:3] == ["Answer", "Best choice · figures at load 1 (10 req/s)", "fair"]
    assert "Headroom" in words["answer"] and "≥ 2×" in words["answer"], "it carries every load tried"
    assert words["provenance"][1] == belief_line(Belief())
    assert read(RUN).sections["provenance"][1] == belief_line(Belief())


def test_the_card_has_the_sentence_that_decides():
    html = page(SWEEP, about(), findings(SWEEP, answer="Take fair."))
    assert "Take fair." in read(html).sections["answer"]
    assert str(FOUND.judged[0].verdict) in read(COMPARISON).sections["answer"], "else the verdict at load 1"
    run = page([case("fair", None, 1.0)], about(answer="fair keeps the SLO."))
    assert "fair keeps the SLO." in read(run).sections["answer"]


def test_the_choice_is_the_one_that_nothing_beats_and_carries_most():
    assert chosen_policy(FOUND) == "fair"
    even = [case(name, load, 1.0, 1.5) for name in ("fair", "greedy") for load in (1.0, 2.0)]
    assert chosen_policy(findings(even)) == "", "nothing sets them apart"
    assert "Any of them" in read(page(even, about(), findings(even))).sections["answer"]
    assert chosen_policy(findings(even, limits=LIMITS)) == "fair", "equal, and carries more"


def test_the_drawing_beside_the_answer_has_the_limit_and_the_headroom():
    limits = [replace(LIMITS[0], carried=1.5, load=1.7, beyond=2.0), LIMITS[1]]
    drawn = page(SWEEP, about(), findings(SWEEP, limits=limits, target=0.9)).split('id="summary"')[0]
    assert drawn.count(">target: 90 %</text>") == 2, "for a wide screen and for a narrow one"
    assert drawn.count(">headroom 1.5×</text>") == 2
    assert drawn.count(">collapse</text>") == 2
    assert ">headroom" not in page(SWEEP, about(), findings(SWEEP, limits=limits, target=0.9, own=False))


def test_provenance_says_engine_cost_seed_and_slo():
    words = " ".join(read(COMPARISON).sections["provenance"])
    for part in ("A title", "vllm v1", "kind table", "fit.error 0.07", "Seed 3", "TTFT ≤ 2 s"):
        assert part in words or part in read(COMPARISON).text


def test_every_section_is_there_in_order_and_the_contents_lead_to_it():
    assert list(read(RUN).sections) == BOTH
    assert list(read(COMPARISON).sections) == [*BOTH[:2], "over-load", "collapse", *BOTH[2:]]
    for text in (COMPARISON, RUN):
        links = [value for tag, name, value in read(text).attributes if (tag, name) == ("a", "href")]
        assert [each for each in links if each != "#top"] == [f"#{section}" for section in read(text).sections]


def test_no_two_places_have_one_name():
    for text in (COMPARISON, RUN):
        ids = read(text).ids
        assert len(ids) == len(set(ids))


def test_nothing_is_fetched():
    for text in (COMPARISON, RUN):
        assert "http" not in text
        assert "@import" not in text and "@font-face" not in text
        assert not re.search(r"fetch\(|XMLHttp|import\(|WebSocket", text)
        assert set(re.findall(r"url\((.*?)\)", text)) <= {"#hatch", "#heat"}
        reader = read(text)
        assert not {name for _, name, _ in reader.attributes} & {"src", "srcset", "data", "action", "xlink:href"}
        links = [value for _, name, value in reader.attributes if name == "href"]
        assert links
        assert all(link.startswith(("#", "data:image/png;base64,")) or link == "data:," for link in links)


def test_every_figure_and_verdict_of_a_comparison_is_there():
    words = read(COMPARISON).sections["every-figure"]
    for each in SWEEP:
        for figure in COMPARED:
            if figure.value(each.result) is not None:
                assert figure.text(each.result) in words
                assert figure.margin(each.result) in words or not figure.margin(each.result)
    words = read(COMPARISON).sections["summary"]
    verdicts = findings(SWEEP).judged
    assert [str(each.verdict) in words for each in verdicts] == [True, True]
    assert str(verdicts[0].verdict).startswith("Indistinguishable")
    assert str(verdicts[1].verdict).startswith("Best by SLO met: fair")
    assert "± is half." in words
    assert "−25 % ± 1 %" in words, "the difference to the best one"
    assert COMPARISON.count('<tr class="best">') == 1


def test_a_column_has_one_unit_which_its_head_says():
    assert unit("seconds", [0.02, 0.03, 4.0]) == Unit("ms", 1e-3)
    assert unit("seconds", [0.0, 2.0, 3.0]) == Unit("s", 1.0), "a zero has no unit"
    assert unit("share", [0.5]) == Unit("%", 0.01)
    assert plain(0.02, Unit("ms", 1e-3), "seconds") == "20" and plain(4.0, Unit("ms", 1e-3), "seconds") == "4,000"
    table = COMPARISON.split('aria-label="Results by policy and load"')[1].split("</table>")[0]
    cells = re.findall(r"<td(.*?)</td>", table)
    assert len(cells) == len(SWEEP) * table.count("<th ")
    assert not [cell for cell in cells if re.search(r"\d (ms|s|µs)\b", cell)], "units are in the head"


def test_shares_of_the_slo_are_a_strip_with_signs():
    strip = COMPARISON.split('class="strip"')[1].split("</table>")[0]
    assert re.findall(r'<td class="(q\d)">(.*?)</td>', strip) == [
        ("q4", "✓ 100 %"), ("q4", "✓ 100 %"), ("q4", "✓ 100 %"), ("q1", "✗ 75 %"),
    ]  # fmt: skip
    assert 'class="strip"' not in page(SWEEP, about(), findings(SWEEP)), "without a target there is nothing to hold"


def test_the_summary_of_a_run_has_its_figures():
    words = read(RUN).sections["summary"]
    result = case("fair", None, 1.0).result
    assert words[words.index("SLO met") + 1] == ATTAINMENT.text(result)
    assert words[words.index("TTFT p99") + 1] == duration(result["ttft_s"]["p99"])


def test_a_comparison_has_curves_distributions_maps_and_bars():
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", COMPARISON)
    assert titles[:9] == [
        "SLO met over load", "SLO met over load", "TTFT, median", "TTFT, 99th percentile",
        "TPOT, 99th percentile", "End to end, 99th percentile", "Goodput", "SLO met", "Loads carried",
    ]  # fmt: skip
    assert titles.count("Time to first token") == 2, "one at each load"
    assert COMPARISON.count('<svg class="heat"') == 3 * len(SWEEP)
    assert titles.count("End to end, mean of all") == 2


def test_points_over_load_say_the_figures_of_the_results():
    texts = read(COMPARISON).texts
    for each in SWEEP:
        text = f"{each.policy}\nSLO met: {ATTAINMENT.text(each.result)} {ATTAINMENT.margin(each.result)}\n{each.at}"
        assert text in texts
    assert SWEEP[0].at == "load 1 (10 req/s)"


def test_intervals_are_bands_and_a_collapse_is_marked():
    drawn = COMPARISON.split('id="over-load"')[1].split("</section>")[0]
    assert drawn.count('<path class="b c1"') == 6, "greedy has an interval at each load"
    assert drawn.count(">load 1</text>") == 6
    assert drawn.count('<line class="m c1"') == 6, "the load at which it collapses"
    assert '<line class="m c0"' not in drawn, "fair does not collapse"


def test_the_collapse_says_what_was_found():
    reader = read(COMPARISON)
    words = " ".join(reader.sections["collapse"])
    assert "greedy 1.414 1 2 – 2 SLO met by 50 %" in words
    assert "fair – 2 – 2 – –" in words
    assert "A rule." in words
    assert "greedy\nload 1: carried, perhaps by chance" in reader.texts
    assert "greedy\ncollapses at load 1.414" in reader.texts
    assert 'id="collapse"' not in page(SWEEP, about(), findings(SWEEP)), "nothing is known of it"


def test_curves_over_load_are_in_order_of_load_whatever_the_order_of_cases():
    turned = page(SWEEP[::-1], about(), findings(SWEEP))
    assert drawn_lines(page(SWEEP, about(), findings(SWEEP))) == drawn_lines(turned)


def drawn_lines(text: str) -> list[tuple[str, str]]:
    """Names and paths of the curves over load, in order of name (colours follow the order of cases)."""
    over_load = text.split('id="over-load"')[1].split("</section>")[0]
    return sorted(re.findall(r'<g data-name="(.*?)">.*?<path class="l[^>]*d="(.*?)"', over_load))


def test_a_load_tried_in_search_of_a_collapse_is_in_the_curves_alone():
    probe = case_of("fair", [a_run([Row(0.0, 0.0, 1.0, 2.0, output=2)])], 1.5, probe=True)
    reader = read(page([*SWEEP, probe], about(), findings(SWEEP)))
    assert any("load 1.5" in expected for expected in reader.texts)
    assert "1.5" not in " ".join(reader.sections["summary"] + reader.sections["latency"] + reader.sections["slowest"])


def test_bars_add_up_to_what_requests_took():
    reader = read(RUN)
    result = case("fair", None, 1.0).result
    assert f"fair: {duration(result['e2e_s']['mean'])}" in reader.sections["where-time-went"]
    assert f"fair: {duration(result['ttft_s']['mean'])}" in reader.sections["where-time-went"]
    assert "fair\nqueue, until the first token: 1 s (33.3 %)" in reader.texts
    assert "fair\ndecode, from there to the end: 2 s (66.7 %)" in reader.texts
    assert "fair\ndecode, from there to the end: 4 s (80 %)" in reader.texts, "of the slowest one"
    assert MEANING["queue"] in reader.sections["where-time-went"]
    assert "transfer" not in reader.sections["where-time-went"], "no request had any"


def test_a_run_without_blame_has_no_bars():
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, output=2)])
    reader = read(page([case_of("fair", [run], None)], about()))
    assert "where-time-went" not in reader.sections
    assert "Where their time went" not in reader.text


def test_slow_requests_are_shown_with_where_their_time_went():
    rows = [Row(0.0, 0.5, 1.0, 5.0, prompt=100, output=3, cached=25), Row(1.0, 1.0, 2.5, 2.5, output=1)]
    words = " ".join(read(page([case_of("fair", [a_run(rows)], None)], about())).sections["slowest"])
    assert "By TTFT request" in words
    assert "1 1 s 0 0 1 0 0 s 1.5 s – 1.5 s –" in words
    assert "0 0 s 100 25 25 % 3 0 500 ms 1 s 2 s 5 s –" in words
    assert words.index("1 1 s 0") < words.index("0 0 s 100"), "the slowest to its first token first"
    text = " ".join(read(RUN).sections["slowest"])
    assert "Request 0. Its 5 s (mean of 2 finished requests: 3 s): decode 4 s (2 s), queue 1 s (1 s);" in text


def test_a_story_is_shown_as_it_is():
    life = Story([StoryLine(0.0, 0.0, "gateway", "arrives <at> last")], {}, dict.fromkeys(MEANING, 0.0), {}, 0)
    text = page([replace(case("fair", None, 1.0), stories={0: life})], about())
    assert "arrives &lt;at&gt; last" in text
    assert "Request 1. Its 1 s" in text, "one without a story has its last line"
    assert "Their stories" in read(text).text
    assert "Their stories" not in read(RUN).text


def test_pools_are_named():
    run = a_run(
        [Row(0.0, 0.0, 1.0, 2.0, output=2)],
        replicas=[ReplicaStats(), ReplicaStats()],
        samples=[(0, 0, 1, 1, 1), (0, 1, 2, 2, 2), (ps(1), 0, 1, 1, 1), (ps(1), 1, 2, 2, 2)],
    )
    run.records.decode_replica[0] = 1
    reader = read(page([case_of("fair", [run], None)], about(pools=["prefill", "decode"])))
    assert ("section", "data-names", "replica 0 (prefill)|replica 1 (decode)") in reader.attributes
    assert {"prefill 0", "decode 1", "replica 1 (decode)"} <= set(reader.sections["replicas"])
    assert "0 (prefill) → 1 (decode)" in reader.sections["slowest"]


def test_only_a_run_whose_replicas_come_or_go_has_gaps():
    rows, samples = [Row(0.0, 0.0, 1.0, 2.0, output=2)], [(0, 0, 1, 1, 1), (ps(1), 0, 1, 1, 1), (ps(2), 0, 1, 1, 1)]
    for until, named in ((NOT_YET, False), (ps(1), True)):
        run = a_run(rows, replicas=[ReplicaStats(up_until=until)], samples=samples)
        assert ("replica not up" in read(page([case_of("fair", [run], None)], about())).text) == named


@pytest.mark.parametrize("rows", [[], [Row(0.0, status=UNFINISHED)]])
def test_a_run_in_which_nothing_finished_is_a_page_with_reasons(rows):
    words = " ".join(read(page([case_of("fair", [a_run(rows)], None)], about())).text)
    assert "Nothing to draw" in words
    assert not re.search(r"\bnan\b|None", words)


def test_no_cases_is_still_a_page():
    assert belief_line(Belief()) in read(page([], about())).text


def test_what_was_stopped_says_so():
    html = page(SWEEP, about(), findings(SWEEP, partial="stopped by the user; 3 of 8 simulations are done"))
    assert "Interrupted: stopped by the user; 3 of 8 simulations are done." in read(html).text
    run = case("fair", None, 1.0)
    run.result["notes"]["interrupted"] = "stopped by the user after 1 of 2 seeds"
    assert "Interrupted: stopped by the user after 1 of 2 seeds." in read(page([run], about())).text
    assert "Interrupted" not in COMPARISON


def test_names_are_escaped():
    name = "<b>alert(1)</b>&\"'"
    cases = [case(name, load, 1.0, load) for load in (1.0, 2.0)]
    limits = [replace(LIMITS[1], policy=name)]
    text = page(cases, about(workload={"<b>": "<i>"}, pools=[name]), findings(cases, limits=limits))
    assert "<b>alert" not in text
    assert "<i>" not in text
    assert text.count(escape(name)) > 20
    read(text)


def test_notes_say_which_cases_they_hold_for():
    cases = [case("fair", 1.0, 1.0, 2.0), case("greedy", 1.0, 1.0)]
    notes = re.findall(r"<li>(.*?)</li>", page(cases, about(), findings(cases)))
    assert "interval: one seed: an interval needs two or more (greedy at load 1 (10 req/s))" in notes


def test_no_number_in_a_drawing_is_broken():
    for text in (COMPARISON, RUN):
        for drawing in re.findall(r"<svg.*?</svg>", text, re.S):
            assert not re.search(r"\bnan\b|\binf\b|None", re.sub(r'href=".*?"', "", drawing))


def test_a_page_stays_small():
    run = crowd(80, 300)
    assert len(page([case_of("fair", [run], None)], about())) < 250_000
    cases = [case_of(name, [run], float(load)) for name in "abcd" for load in range(1, 5)]
    assert len(page(cases, about(), findings(cases))) < 1_000_000


def test_the_page_is_written_whole(tmp_path):
    html_report(tmp_path / "new" / "report.html", SWEEP, about())
    assert (tmp_path / "new" / "report.html").read_text() == page(SWEEP, about())
    with pytest.raises(UserError, match="regular file"):
        html_report(tmp_path, SWEEP, about())
