"""Orders, admissions and predictors in a scenario: several admissions at once, labels, resolved values, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import PolicyError, ScenarioError
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.early_reject import EarlyReject
from poise.policies.lend.infinite_llm import InfiniteLlm
from poise.policies.order.edf import Edf
from poise.policies.predict.constant import Constant
from poise.scenario.build import Problem, build
from poise.scenario.load import load
from poise.scenario.resolve import resolved, write_yaml

SCENARIO = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100}]}
workload: {poisson: {rate: 5, requests: 20}}
policies:
"""


def problem(tmp_path: Path, policies: str) -> Problem:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO + "".join(f"  {line}\n" for line in policies.splitlines()))
    return build(load(file))


def test_one_of_each(tmp_path: Path) -> None:
    ((label, bundle),) = problem(
        tmp_path, "order: edf\nadmission: {ceiling: {requests: 9}}\npredictor: {constant: {tokens: 7}}"
    ).bundles
    assert label == "cache_aware"
    assert (bundle.order, bundle.admission, bundle.predictor) == (Edf(), (Ceiling(9),), Constant(7))


def test_a_lender(tmp_path: Path) -> None:
    made = problem(tmp_path, "lender: {infinite_llm: {slack: 0.1}}")
    assert made.bundles[0][1].lender == InfiniteLlm(slack=0.1)
    settings = resolved(made)["policies"]["lender"]["infinite_llm"]
    assert (settings["slack"], settings["roomy"]) == (0.1, 0.8)


def test_none_by_default(tmp_path: Path) -> None:
    ((_, bundle),) = problem(tmp_path, "router: round_robin").bundles
    assert (bundle.order, bundle.admission, bundle.predictor) == (None, (), None)


def test_several_admissions_are_one_choice_and_a_list_compares(tmp_path: Path) -> None:
    found = problem(
        tmp_path,
        "admission: [null, ceiling, {all: [{ceiling: {requests: 4}}, early_reject]}, {all: [ceiling, early_reject]}]\n"
        "order: [fcfs, edf]",
    ).bundles
    assert [label for label, _ in found][:4] == [
        "fcfs + default",
        "fcfs + ceiling",
        "fcfs + ceiling(requests=4) & early_reject",
        "fcfs + ceiling & early_reject",
    ]
    assert len(found) == 8
    assert [bundle.admission for _, bundle in found][:3] == [(), (Ceiling(),), (Ceiling(4), EarlyReject())]


def test_what_is_resolved_is_read_back(tmp_path: Path) -> None:
    first = problem(
        tmp_path, "order: edf\nadmission: {all: [{ceiling: {requests: 4}}, early_reject]}\npredictor: oracle"
    )
    settings = resolved(first)
    assert settings["policies"]["order"] == {"edf": {"ttft_s": 5.0}}
    assert settings["policies"]["admission"]["all"][1] == {"early_reject": {"ttft_s": 5.0, "hit_rate": 0.0}}
    again = tmp_path / "again.yaml"
    write_yaml(settings, again)
    assert resolved(build(load(again))) == settings
    assert build(load(again)).bundles[0][1].admission == (Ceiling(4), EarlyReject())


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ("admission: {all: []}", r"scenario\.yaml:5: policies\.admission: all: \[\] is not a list of admissions; give"),
        ("admission: {all: ceiling}", "is not a list of admissions"),
        ("admission: {all: [{all: [ceiling]}]}", "all stands within all; name every admission in one list"),
        ("admission: {all: [ceiling, ceiling]}", "ceiling stands twice in all; keep it once"),
        ("admission: {all: [null]}", "None names no policy"),
        ("admission: [{all: [ceiling]}, {all: [ceiling]}]", r"\bceiling stands twice in the list"),
        (
            "admission: {all: [ceiling, sealing]}",
            r"all\.1: 'sealing' is no admission.*ceiling",
        ),
        ("admission: {all: [{ceiling: {request: 1}}]}", r"all\.0\.ceiling: unknown parameter 'request'"),
        ("order: ceiling", "'ceiling' is no order"),
        ("router: {all: [round_robin]}", "names no policy; give NAME"),
        ("predictor: oracel", "'oracel' is no predictor; did you mean oracle"),
    ],
)
def test_errors_name_the_cure(tmp_path: Path, policies: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        problem(tmp_path, policies)


def test_one_admission_is_no_tuple() -> None:
    wrong: Any = Ceiling(3)
    with pytest.raises(PolicyError, match=r"give a tuple of policies, as in \(Ceiling\(64\),\)"):
        Policies(admission=wrong)
