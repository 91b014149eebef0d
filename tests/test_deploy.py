"""What deploys Poise: the dashboard and the alerts ask for metrics that exist, and a real Prometheus answers them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from poise.core.spec import PoolSpec
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.scale.keep_alive import KeepAlive
from poise.scenario.serve.schema import Gateway as GatewayFile
from tests.live.admin.house import ask, house, run
from tests.live.gateway.live import Live
from tools import dashboard

DEPLOY = Path(__file__).parent.parent / "deploy"
METRIC = re.compile(r"\bpoise_[a-z0-9_]+")
PROMETHEUS = shutil.which("prometheus")


def loaded(name: str) -> Any:
    return YAML(typ="safe").load(DEPLOY / name)


def expressions() -> list[str]:
    """What the dashboard asks, with its variables set."""
    panels = json.loads(dashboard.FILE.read_text())["panels"]
    queried = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [each.replace("$gateway", ".*").replace("$__rate_interval", "1m") for each in queried]


def rules() -> list[str]:
    return [rule["expr"] for group in loaded("prometheus/alerts.yml")["groups"] for rule in group["rules"]]


def test_the_dashboard_is_what_its_tool_writes() -> None:
    assert json.loads(dashboard.FILE.read_text()) == json.loads(json.dumps(dashboard.dashboard()))


def test_every_metric_that_is_queried_exists() -> None:
    async def main() -> set[str]:
        pools = [PoolSpec(name="chat", min_replicas=1, max_replicas=2)]
        async with Live(2, PrefixCache(), scaler=KeepAlive(keep_s=30.0), pools=pools) as live:
            await live.ask().wait()
            return {family.name for family in live.gateway.stats._families()}

    names = asyncio.run(main())
    queried = {re.sub(r"_bucket$", "", name) for each in (*expressions(), *rules()) for name in METRIC.findall(each)}
    assert queried <= names


def test_the_files_of_compose_lead_to_one_another() -> None:
    compose = loaded("compose.yaml")
    services = compose["services"]
    read = GatewayFile.model_validate(loaded("gateway.yaml"))
    assert read.discover.dns == "engine:8000" and "engine" in services
    assert read.admin.token_env in services["gateway"]["environment"]
    for service in services.values():
        for volume in service.get("volumes", []):
            assert (DEPLOY / volume.partition(":")[0]).is_file(), volume
    jobs = {job["job_name"]: job["dns_sd_configs"][0] for job in loaded("prometheus/prometheus.yml")["scrape_configs"]}
    assert (jobs["poise"]["names"], jobs["poise"]["port"]) == (["gateway"], read.admin.port)
    source = loaded("grafana/datasource.yaml")["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in services


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH")
def test_alerts_fire_for_their_causes() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"],
        cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not on PATH")
def test_prometheus_answers_the_dashboard(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(token="demo") as here:
            config = {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {
                        "job_name": "poise",
                        "authorization": {"credentials": "demo"},
                        "static_configs": [{"targets": [f"127.0.0.1:{here.admin_port}"]}],
                    }
                ],
            }
            with (tmp_path / "prometheus.yml").open("w") as file:
                YAML().dump(config, file)
            port = _free()
            process = await asyncio.create_subprocess_exec(
                str(PROMETHEUS), "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}",
                cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await _answers(port, here)
            finally:
                process.terminate()
                await process.wait()

    async def _answers(port: int, here: Any) -> None:
        async def value(expression: str) -> list[Any]:
            try:
                answer = await ask(port, f"/api/v1/query?query={urllib.parse.quote(expression)}")
            except OSError:
                return []  # it does not listen yet
            if answer.status == 503:
                return []
            assert answer.status == 200, answer.body
            return list(answer.json["data"]["result"])

        prompt = "What is the capital of France? " * 40
        scraped: list[Any] = []
        while len(scraped) < 1:  # traffic until two scrapes have seen it
            await here.complete(prompt)
            scraped = await value("rate(poise_prompt_tokens_total[1m]) > 0")
        silent = {each for each in expressions() if not await value(each)}
        known = ("failures", "clients_refused", "desired", "serving_replicas", "tenant", "cached", "prefix")
        assert not [each for each in silent if not any(word in each for word in known)]
        for each in rules():
            await value(each)

    run(main)


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
