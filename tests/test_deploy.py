"""What deploys Poise: the dashboard and the alerts ask for metrics that exist, and files lead to one another."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from typing import Any

from ruamel.yaml import YAML

from poise.core.spec import PoolSpec
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.scale.keep_alive import KeepAlive
from poise.scenario.serve.schema import Gateway as GatewayFile
from tests import prometheus
from tests.live.gateway.live import Live
from tests.prometheus import DEPLOY
from tools import chart_schema, dashboard

METRIC = re.compile(r"\bpoise_[a-z0-9_]+")


def loaded(name: str) -> Any:
    return YAML(typ="safe").load(DEPLOY / name)


def test_the_dashboard_is_what_its_tool_writes() -> None:
    assert json.loads(dashboard.FILE.read_text()) == json.loads(json.dumps(dashboard.dashboard()))


def test_every_metric_that_is_queried_exists() -> None:
    async def main() -> set[str]:
        pools = [PoolSpec(name="chat", min_replicas=1, max_replicas=2)]
        async with Live(2, PrefixCache(), scaler=KeepAlive(keep_s=30.0), pools=pools) as live:
            await live.ask().wait()
            return {family.name for family in live.gateway.stats._families()}

    names = asyncio.run(main())
    queries = [*prometheus.expressions().values(), *(rule["expr"] for rule in prometheus.rules())]
    queried = {re.sub(r"_bucket$", "", name) for each in queries for name in METRIC.findall(each)}
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


def test_the_schema_of_the_charts_values_is_what_its_tool_writes() -> None:
    assert json.loads(chart_schema.FILE.read_text()) == json.loads(json.dumps(chart_schema.schema()))


def test_the_chart_has_the_version_of_the_package() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    chart = loaded("chart/poise/Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


def test_the_charts_values_have_a_gateway_file_and_all_that_the_schema_names() -> None:
    values = loaded("chart/poise/values.yaml")
    GatewayFile.model_validate(values["gateway"])
    assert {*values, "global"} == set(chart_schema.schema()["properties"])
