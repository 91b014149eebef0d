"""Files for those who join or cite: they agree with the package, and what they run exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(each for each in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if each.stem != "config")


def loaded(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def test_the_citation_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = loaded(ROOT / "CITATION.cff")
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert not isinstance(needs := job.get("needs", []), str) or needs in workflow["jobs"], name
        for step in job["steps"]:
            for words in re.findall(r"\bmake ([a-z -]+)", step.get("run", "")):
                assert set(words.split()) <= targets, (name, words)
            assert re.search(r"@(v\d+|release/v\d+)$", step["uses"]) if "uses" in step else step["run"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_ask_once_for_each_thing(path: Path) -> None:
    form = loaded(path)
    assert form["name"] and form["description"]
    names = [each["id"] for each in form["body"]]
    assert len(names) == len(set(names)) and all(each["attributes"]["label"] for each in form["body"])


@pytest.mark.parametrize("page", ["SECURITY.md", "CONTRIBUTING.md", "CITATION.cff"])
def test_files_that_are_named_exist(page: str) -> None:
    named = re.findall(r"\b(?:docs|tests|bench|poise|tools)/[\w/]+\.\w+\b", (ROOT / page).read_text())
    assert named and not [each for each in named if not (ROOT / each).exists()]
