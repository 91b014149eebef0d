"""Writes deploy/grafana/poise.json, the dashboard of the gateway: `python tools/dashboard.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent.parent / "deploy/grafana/poise.json"
WIDTH = 24
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${source}"}
CHOSEN = 'instance=~"$gateway"'

Series = tuple[str, str]
"""An expression, and the legend of its lines."""
FAILED, SERVING = 'code=~"5.."', 'state="serving"'


class Panel(NamedTuple):
    """One panel. kind: Grafana's.  unit: Grafana's short name."""

    title: str
    kind: str
    unit: str
    series: tuple[Series, ...]


def rate(metric: str, by: str = "", where: str = "") -> str:
    """The sum of a counter's rates over the chosen gateways."""
    label = f" by ({by})" if by else ""
    return f"sum{label} (rate({now(metric, where)}[$__rate_interval]))"


def now(metric: str, where: str = "") -> str:
    """A metric of the chosen gateways."""
    return f"{metric}{{{CHOSEN}{',' if where else ''}{where}}}"


def share(part: str, whole: str, by: str = "") -> str:
    """One counter's rate over another's."""
    return f"{rate(part, by)} / {rate(whole, by)}"


def stat(title: str, unit: str, expression: str) -> Panel:
    """A single number."""
    return Panel(title, "stat", unit, ((expression, ""),))


def graph(title: str, unit: str, *series: Series) -> Panel:
    """Lines over time."""
    return Panel(title, "timeseries", unit, series)


def quantiles(title: str, metric: str) -> Panel:
    """Median, 95th and 99th percentile of a histogram in seconds."""
    buckets = rate(f"{metric}_bucket", "le")
    return graph(title, "s", *((f"histogram_quantile({each / 100}, {buckets})", f"p{each}") for each in (50, 95, 99)))


CACHED, PROMPT = "poise_prompt_tokens_cached_total", "poise_prompt_tokens_total"
AGREED = "poise_prefix_agreed_tokens_total"

ROWS = {
    "Now": [
        stat("Requests per second", "reqps", rate("poise_requests_total")),
        stat(
            "Errors (5xx)",
            "percentunit",
            f"({rate('poise_requests_total', where=FAILED)} or vector(0)) / {rate('poise_requests_total')}",
        ),
        stat("Engines that serve", "none", f"sum({now('poise_engine_state', SERVING)})"),
        stat("Requests that wait", "none", f"sum({now('poise_requests_held')})"),
        stat("Prompt tokens from caches", "percentunit", share(CACHED, PROMPT)),
    ],
    "Traffic": [
        graph("Requests by status", "reqps", (rate("poise_requests_total", "code"), "{{code}}")),
        graph(
            "Tokens per second",
            "none",
            (rate(PROMPT), "prompt"),
            (rate(CACHED), "prompt, cached"),
            (rate("poise_generation_tokens_total"), "output"),
        ),
        graph("Busiest tenants", "reqps", (f"topk(10, {rate('poise_tenant_requests_total', 'tenant')})", "{{tenant}}")),
    ],
    "Latency": [
        quantiles("Time to first token", "poise_time_to_first_token_seconds"),
        quantiles("Wait at the gateway", "poise_queue_time_seconds"),
        quantiles("End to end", "poise_e2e_request_latency_seconds"),
    ],
    "Engines": [
        graph(
            "Requests in flight",
            "none",
            (f"sum by (engine) ({now('poise_engine_requests_in_flight')})", "{{engine}}"),
        ),
        graph("State", "none", (f"sum by (state) ({now('poise_engine_state')})", "{{state}}")),
        graph(
            "Failures per second", "none", (rate("poise_engine_failures_total", "engine, kind"), "{{engine}} {{kind}}")
        ),
        graph(
            "Age of the last report",
            "s",
            (f"max by (engine) ({now('poise_engine_report_age_seconds')})", "{{engine}}"),
        ),
        graph("Cached share of prompt tokens", "percentunit", (share(CACHED, PROMPT, "engine"), "{{engine}}")),
        graph(
            "Prefix index: precision and recall",
            "percentunit",
            (share(AGREED, "poise_prefix_predicted_tokens_total"), "precision"),
            (share(AGREED, "poise_prefix_hit_tokens_total"), "recall"),
        ),
    ],
    "Gateway": [
        graph(
            "Requests open and waiting",
            "none",
            (f"sum({now('poise_requests_open')})", "open"),
            (f"sum({now('poise_requests_held')})", "waiting"),
        ),
        graph("Clients refused", "reqps", (rate("poise_clients_refused_total", "cause"), "{{cause}}")),
        graph(
            "Policy errors and second copies per second",
            "none",
            (rate("poise_policy_errors_total"), "policy errors"),
            (rate("poise_hedges_total"), "second copies"),
            (rate("poise_hedges_won_total"), "second copies that won"),
        ),
        graph(
            "Engines wanted and serving",
            "none",
            (f"max by (pool) ({now('poise_desired_replicas')})", "{{pool}} wanted"),
            (f"max by (pool) ({now('poise_serving_replicas')})", "{{pool}} serving"),
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, several in ROWS.items():
        panels.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1}, "panels": []})
        short = all(each.kind == "stat" for each in several)
        height = HEIGHT // 2 if short else HEIGHT
        top += 1
        for line in batched(several, len(several) if short else 3):
            width = WIDTH // len(line)
            places = ({"x": at * width, "y": top, "w": width, "h": height} for at in range(len(line)))
            panels += map(_panel, line, places)
            top += height
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": "poise-gateway",
        "title": "Poise gateway",
        "tags": ["poise", "llm"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_source(), _gateways()]},
        "panels": panels,
    }


def batched(several: Sequence[Panel], most: int) -> Iterator[Sequence[Panel]]:
    """Lines of at most so many panels."""
    return (several[at : at + most] for at in range(0, len(several), most))


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
        for at, (expression, legend) in enumerate(panel.series)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}


def _gateways() -> dict[str, Any]:
    query = "label_values(poise_requests_open, instance)"
    return {
        "name": "gateway",
        "label": "Gateway",
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(dashboard(), indent=1) + "\n", encoding="utf-8")
