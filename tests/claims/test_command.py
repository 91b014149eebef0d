"""`poise systems` and `poise claim`: what they print, write and refuse, and when a result is stale."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poise.claims import command, find, record, show
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench, find_data
from poise.claims.claim import Curve, Point, Source
from poise.claims.listed import listed
from poise.claims.spark import sparks
from poise.cli import main

QUICK = "sglang_cache_aware"
"""The quickest of all."""


def output(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    """What a command says: its output, or the one line of its error."""
    assert main([*argv]) == code
    printed = capsys.readouterr()
    if code:
        assert printed.err.count("\n") == 1
    return printed.err if code else printed.out


# A whole claim --------------------------------------------------------------------------------------------------------


def test_a_quick_claim_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "result.json", tmp_path / "out"
    text = output(capsys, "claim", QUICK, "--quick", "--json", str(file), "--out", str(out))
    data = json.loads(file.read_text(encoding="utf-8"))
    kept = record.read(data)
    old = {key: {"told": each["text"], "found": each["found"]} for key, each in data["measured"].items()}
    assert record.read(data | {"measured": old}) == kept, "results of version 0.1 have `told`"
    assert data["quick"]
    assert data["verdict"] == kept.verdict
    assert data["digest"] == find.digest(QUICK)
    assert f"Verdict of a quick run, which has a tenth of the requests: {data['verdict']}" in text
    for number, outcome in enumerate(kept.outcomes, start=1):
        assert f"{number}. " in text
        assert show.MET[outcome.met] in text
    assert (out / "result.json").read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg class=") == len(kept.findings.curves) > 0
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)  # nothing is fetched


def test_a_quick_run_that_chance_decides_is_too_short_and_says_what_to_do() -> None:
    kept = record.measured(QUICK)
    assert kept is not None
    open_ = [each._replace(found=None) for each in kept.findings.answers]
    quick = replace(kept, quick=True, findings=replace(kept.findings, answers=open_))
    out = io.StringIO()
    show.show_claim(QUICK, quick, out)
    minutes = max(-(-int(kept.cpu_s) // 60), 1)
    cure = f"too short to say; run without --quick, which takes about {minutes} min of one core"
    assert cure in " ".join(out.getvalue().split()) and "not tested here" not in out.getvalue()
    assert replace(quick, quick=False).verdict == "not tested here"


def test_the_same_claim_comes_out_the_same() -> None:
    one, two = (find.measure(QUICK, Bench(find.claim(QUICK), quick=True)) for _ in range(2))
    assert one == two


def test_more_seeds_are_drawn_until_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first number of seeds on, doubled as long as chance decides, to the most."""
    about = find.claim(QUICK).model_copy(update={"seeds": [5, 30]})
    monkeypatch.setattr("poise.claims.command.claim", lambda name: about)

    def seeds_run(enough: int, *, quick: bool = False) -> list[int]:
        """Numbers of seeds of an experiment that is decided by its run of this number."""
        found: list[int] = []

        def measure(name: str, bench: Bench) -> Findings:
            found.append(bench.seeds())
            return Findings([Answer(key, "text", len(found) >= enough or None) for key in about.criteria])

        monkeypatch.setattr("poise.claims.command.measure", measure)
        command.run(QUICK, Bench(about, quick=quick))
        return found

    assert seeds_run(1) == [5]
    assert seeds_run(2) == [5, 10]
    assert seeds_run(9) == [5, 10, 20]  # 40 would be more than 30
    assert seeds_run(9, quick=True) == [2]


def test_json_on_standard_output_is_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kept = record.measured(QUICK)
    assert kept is not None
    monkeypatch.setattr("poise.claims.command.measure", lambda name, bench: kept.findings)
    data = json.loads(output(capsys, "claim", QUICK, "--json", "-"))
    assert record.read(data).findings == kept.findings
    assert [each["asks"] for each in data["criteria"]] == [each.criterion.asks for each in kept.outcomes]


def test_save_writes_what_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = record.measured(QUICK)
    assert kept is not None
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    monkeypatch.setattr("poise.claims.command.measure", lambda name, bench: kept.findings)
    assert show.verdict_of(QUICK) == "not measured"
    output(capsys, "claim", QUICK, "--save", "--quiet")
    assert [file.name for file in tmp_path.iterdir()] == [f"{QUICK}.json"]
    assert show.claimed(QUICK)["verdict"] == kept.verdict
    saved = record.measured(QUICK)
    assert saved is not None and saved.headlines == record.headlines(kept)  # here of the same findings


# Lists ----------------------------------------------------------------------------------------------------------------


def test_systems_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(output(capsys, "systems", "--json"))["systems"]
    assert [each["name"] for each in data] == [each.name for each in listed()]
    text = output(capsys, "systems")
    assert max(map(len, text.splitlines())) <= 120
    verdicts = {"holds", "holds in part", "does not hold", "not tested here", "stale"}
    for each in data:
        assert f"\n{each['name']} " in text
        for claim in each["claims"]:
            assert claim["verdict"] in verdicts
            assert claim["verdict"] in each["standing"]


def test_systems_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(output(capsys, "systems", "routing", "--json"))["systems"]
    assert {"llumnix", "preble"} <= {each["name"] for each in data} < {each.name for each in listed()}
    assert {each["group"] for each in data} == {"routing and rebalancing"}
    assert "is no name, arXiv id, slot or group" in output(capsys, "systems", "rooting rebalance", code=2)


@pytest.mark.parametrize("name", find.names())
def test_all_that_is_known_of_a_system(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, kept, about = " ".join(output(capsys, "systems", name).split()), record.measured(name), find.claim(name)
    for expected in (about.published, about.conditions):
        assert " ".join(expected.split()) in text
    for outcome in kept.outcomes if kept else ():
        assert " ".join(outcome.measured.split()) in text
        if outcome.criterion.since:
            assert f"asked since {outcome.criterion.since}, the first run was on {about.first}" in text
    for expected in about.notes.values():
        assert " ".join(expected.split()) in text
    for curve in kept.findings.curves if kept else ():
        assert f"{curve.title}, by {curve.across}" in text
    (data,) = json.loads(output(capsys, "systems", name, "--json"))["systems"]
    assert (name in {each["name"] for each in data["results"]}) == (kept is not None)


def test_a_curve_in_small_is_on_one_scale() -> None:
    curve = Curve("t", "load", "seconds", {"a": [Point(1, 0.1), Point(2, 1)], "bb": [Point(2, 10.0), Point(3, None)]})
    assert sparks(curve) == ["a   ▁▄   100 ms to 1 s", "bb   █   10 s", "    from 1 to 3"]


# Stale results --------------------------------------------------------------------------------------------------------


def test_a_result_of_other_code_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = record.measured(QUICK)
    assert kept is not None
    for digest, expected in ((find.digest(QUICK), kept.verdict), ("0" * 16, "stale")):
        monkeypatch.setattr(show, "measured", lambda name, digest=digest: replace(kept, digest=digest))
        assert show.verdict_of(QUICK) == expected


def test_the_digest_covers_the_experiment_and_not_the_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    about, before = find.claim(QUICK), find.digest(QUICK)
    other = {"published": "nothing", "lacking": "much", "notes": {}}
    for update, same in ((other, True), ({"seeds": 7}, False), ({"compare": {}}, False)):
        monkeypatch.setattr(find, "claim", lambda name, update=update: about.model_copy(update=update))
        assert (find.digest(QUICK) == before) == same


def test_the_digest_covers_policies_and_what_they_import() -> None:
    files = {file.name for file in find.files("dualmap")}
    assert {
        "dualmap.py",
        "sweep.py",
        "hash_ring.py",
        "hotness.py",
        "min_ttft.py",
        "preble.py",
        "sent_prefixes.py",
        "window.py",
    } <= files
    assert "llumnix.py" not in files


def test_changed_code_changes_the_digest_and_changed_words_do_not(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("1")
    two.write_text("2")
    before = find.fingerprint([one, two], tmp_path)
    assert find.fingerprint([two, one], tmp_path) == before
    two.write_text("3")
    assert find.fingerprint([one, two], tmp_path) != before
    two.write_text("2")
    two.rename(tmp_path / "three.py")
    assert find.fingerprint([one, tmp_path / "three.py"], tmp_path) != before
    code = 'X = "# no comment"\n\n\ndef double(x):\n    return 2 * x\n'
    reworded = code.replace("\n\n\n", "  # why\n").replace("(x):\n", '(x):\n    """Twice.\n\n    Of x."""\n')
    assert find.code('"""Of X."""\n' + reworded) == find.code(code) != find.code(code.replace("2", "3"))
    assert find.code(code) != find.code(code.replace("# no", "# a"))


# Mistakes -------------------------------------------------------------------------------------------------------------


def test_unknown_names_are_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'dualmaps' is no system with a claim; did you mean dualmap" in output(capsys, "claim", "dualmaps", code=2)
    assert "known: " in output(capsys, "claim", "qqqqqq", code=2)


@pytest.mark.parametrize("named", [True, False])
def test_a_missing_trace_says_which_where_and_how(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POISE_DATA", raising=False)
    text = output(capsys, "claim", "dualmap", *(["--data", str(tmp_path)] if named else []), code=2)
    source = find.claim("dualmap").data[0]
    for part in (source.file, source.published, "--data DIR", "POISE_DATA"):
        assert part in text
    assert (f"is not in {tmp_path}" in text) == named


@pytest.mark.parametrize("place", ["a/b.jsonl.gz", "a/b.jsonl", "b.jsonl.gz", "b.jsonl"])
def test_a_trace_is_found_packed_or_not_in_its_folder_or_beside(place: str, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    for file in ("a/b.jsonl.gz", "a/b.jsonl"):
        assert find_data(Source(file=file, published="https://example.org"), tmp_path) == tmp_path / place


def test_the_environment_names_the_folder_and_the_option_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "there"))
    assert f"is not in {tmp_path / 'there'}" in output(capsys, "claim", "dualmap", code=2)
    assert f"is not in {tmp_path / 'here'}" in output(
        capsys, "claim", "dualmap", "--data", str(tmp_path / "here"), code=2
    )


def test_what_cannot_be_tried_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "claim", "mooncake", code=2)
    assert find.claim("mooncake").lacking in text


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--quick", "--save"], "--save: a quick run is no result to keep"),
        (["--json", "/dev/null/x.json"], "--json /dev/null/x.json: cannot be written"),
        (["--out", "/dev/null/x"], "--out /dev/null/x: cannot be written"),
    ],
)
def test_mistakes_are_found_before_any_work(argv: Any, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in output(capsys, "claim", QUICK, *argv, code=2)
