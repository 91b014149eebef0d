"""The documentation site builds without a warning, holds every page and name, and asks no other host for anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import poise

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_each_page_is_there_and_found(site: Path) -> None:
    pages = {each.relative_to(ROOT / "docs").with_suffix("") for each in (ROOT / "docs").rglob("*.md")}
    for page in pages - {Path("README")}:
        assert (site / page / "index.html").is_file(), page
    found = {
        each["location"].partition("#")[0]
        for each in json.loads((site / "search/search_index.json").read_text())["docs"]
    }
    assert {f"{page.as_posix()}/" for page in pages - {Path("README")}} | {"", "api/", "source/CHANGELOG/"} <= found


def test_each_name_of_the_public_face_is_documented(site: Path) -> None:
    text = (site / "api/index.html").read_text()
    named = {name for name in poise.__all__ if name not in ("__version__", "cost", "policies", "workload")}
    documented = {each.rpartition(".")[2] for each in re.findall(r'<h2 id="(poise\.[\w.]+)"', text)}
    assert named == documented


def test_links_to_sources_lead_to_pages_that_show_them(site: Path) -> None:
    assert "least_requests.py" in (site / "source/poise/policies/route/index.html").read_text()
    text = (site / "source/poise/core/policy.py/index.html").read_text()
    assert "class" in text and "Router" in text


def test_a_reader_is_not_sent_to_other_hosts_for_what_a_page_is_made_of(site: Path) -> None:
    for page in (site / "index.html", site / "plan/index.html", site / "systems/aibrix/index.html"):
        loaded = re.findall(
            r'<(?:script|img|link rel="(?:stylesheet|icon)")[^>]*(?:src|href)="([^"]+)"', page.read_text()
        )
        assert loaded and not [each for each in loaded if "//" in each]


def test_systems_are_in_the_navigation_by_group(site: Path) -> None:
    text = (site / "systems/pathways/index.html").read_text()
    group = text.index("Layouts and frameworks", text.index('aria-label="Navigation"'))
    assert group < text.index('href="../redco/"') < text.index("Agents and workflows", group)
