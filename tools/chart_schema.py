"""Writes deploy/chart/poise/values.schema.json: `python tools/chart_schema.py`.

Helm checks values by it before it renders anything.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from poise.scenario.serve.schema import Gateway

FILE = Path(__file__).parent.parent / "deploy/chart/poise/values.schema.json"

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 1}
PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
NAME: Final[Schema] = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
"""The name of an object, or nothing."""
DURATION: Final[Schema] = {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
ANY: Final[Schema] = {"type": "object"}
ITEMS: Final[Schema] = {"type": "array", "items": ANY}

DROPPED: Final = ("title", "default")
"""Keys of a generated schema that check nothing."""


def table(**fields: Schema) -> Schema:
    """A mapping with these fields and no others."""
    return {"type": "object", "additionalProperties": False, "properties": fields}


def schema() -> Schema:
    """The schema of all values, in the draft of JSON Schema that Helm 3 and 4 read."""
    gateway = _checked(Gateway.model_json_schema())
    parts = gateway.pop("$defs")
    engines = gateway["properties"]["engines"]
    engines["items"] = {"anyOf": [TEXT, engines["items"]]}  # a URL alone stands for an engine
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_values(gateway), "$defs": parts}


def _values(gateway: Schema) -> Schema:
    return table(
        **{"global": ANY},  # Helm adds it where the chart is part of another
        image=table(repository=TEXT, tag=TEXT, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}),
        imagePullSecrets=ITEMS,
        replicaCount=COUNT,
        share=table(enabled=FLAG, port=PORT),
        engines=table(selector=LABELS, port=PORT),
        gateway=gateway,
        envSecret=NAME,
        filesSecret=NAME,
        service=table(type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, port=PORT, annotations=LABELS),
        serviceAccount=table(create=FLAG, name=NAME, annotations=LABELS),
        monitoring=table(
            serviceMonitor=table(enabled=FLAG, interval=DURATION, labels=LABELS),
            rules=table(enabled=FLAG, labels=LABELS),
            dashboard=table(enabled=FLAG, labels=LABELS),
        ),
        podDisruptionBudget=table(enabled=FLAG, maxUnavailable=COUNT),
        autoscaling=table(
            enabled=FLAG, minReplicas=COUNT, maxReplicas=COUNT, cpuPercent=COUNT
        ),
        resources=ANY,
        podAnnotations=LABELS,
        nodeSelector=LABELS,
        tolerations=ITEMS,
        affinity=ANY,
        volumes=ITEMS,
        volumeMounts=ITEMS,
    )  # fmt: skip


def _checked(value: Any) -> Any:
    """A schema without what checks nothing; names of fields stay whatever they are."""
    if isinstance(value, list):
        return [_checked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _checked(each) for name, each in part.items()} if key in ("properties", "$defs") else _checked(part)
        for key, part in value.items()
        if key not in DROPPED
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
