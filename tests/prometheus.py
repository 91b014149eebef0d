"""A real Prometheus that scrapes a gateway, and what the dashboard and the alerts ask of it."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ruamel.yaml import YAML

from tests.live.real.kept import Kept
from tests.live.real.process import ask, free_port
from tools import dashboard

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
RULES: Final = DEPLOY / "prometheus/alerts.yml"
PROGRAM: Final = shutil.which("prometheus")
WAIT_S: Final = 2
"""The rules wait that long in tests, in place of minutes; promtool proves the real waits."""


def expressions() -> dict[str, str]:
    """The dashboard's queries with their variables set, by panel and legend."""
    panels = json.loads(dashboard.FILE.read_text())["panels"]
    return {
        f"{panel['title']}: {target['legendFormat']}": (
            target["expr"].replace("$gateway", ".*").replace("$__rate_interval", "1m")
        )
        for panel in panels
        for target in panel.get("targets", [])
    }


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    return [rule for group in YAML(typ="safe").load(RULES)["groups"] for rule in group["rules"]]


class Prometheus:
    """A process that scrapes the page at `target`, HOST:PORT, each second; its alerts wait `WAIT_S`."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        text = re.sub(r"for: \S+", f"for: {WAIT_S}s", RULES.read_text(encoding="utf-8"))
        text = text.replace("poise_engine_down_seconds > 60", f"poise_engine_down_seconds > {WAIT_S}")
        (folder / "alerts.yml").write_text(text, encoding="utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yml"],
            "scrape_configs": [{"job_name": "poise", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML

    def __enter__(self) -> Self:
        with (self.folder / "prometheus.log").open("wb") as log:
            self._process = Kept(
                [str(PROGRAM), "--config.file=prometheus.yml", f"--web.listen-address={self.url[7:]}"],
                cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()

    def _data(self, path: str) -> Any:
        try:
            status, body = ask(self.url, "GET", path)
        except OSError:
            return {}  # it does not listen yet
        assert status in (200, 503), body  # 503: it does not answer yet
        return json.loads(body)["data"] if status == 200 else {}

    def value(self, expression: str) -> list[Any]:
        """The series that an expression has now."""
        return list(self._data(f"/api/v1/query?query={urllib.parse.quote(expression)}").get("result", ()))

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._data("/api/v1/alerts").get("alerts", ())
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}
