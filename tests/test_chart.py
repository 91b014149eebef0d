"""The Helm chart: Helm renders it, Kubernetes' schemas take its objects, and the gateway its file."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from poise.scenario.serve.schema import Gateway
from tests import cached, crds, helm
from tests.live.integrations.test_kubernetes import made as manifests_made
from tests.live.integrations.test_kubernetes import validated

pytestmark = pytest.mark.slow

Values = dict[str, Any]
Objects = dict[tuple[str, str], dict[str, Any]]

PLAIN: Values = {"engines": {"selector": {"app": "vllm"}}}
ALL: Values = {
    **PLAIN,
    "envSecret": "keys", "filesSecret": "files", "imagePullSecrets": [{"name": "pull"}],
    "gateway": {
        "envoy": {"host": "0.0.0.0"}, "limits": {"drain_s": 12.5}, "belief": {"prefix_tokens": 40_000_000},
        "tenants": {"file": "/etc/poise/secret/keys.yaml"}, "record": {"file": "/data/day.jsonl"},
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"team": "a"}}, "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "autoscaling": {"enabled": True},
    "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
    "podAnnotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "volumes": [{"name": "data", "emptyDir": {}}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}  # fmt: skip
SHARED: Values = {**PLAIN, "envSecret": "keys", "replicaCount": 3, "share": {"enabled": True}}
STATIC: Values = {
    "gateway": {
        "engines": ["http://10.0.0.1:8000", {"url": "http://10.0.0.2:8000", "name": "b"}], "log": None, "listen": None,
    },
    "podDisruptionBudget": {"enabled": False}, "serviceAccount": {"create": False},
}  # fmt: skip
GOOD = {"plain": PLAIN, "all": ALL, "shared": SHARED, "static": STATIC}

WRONG: list[tuple[Values, str]] = [
    ({}, "the gateway has no engines: give engines.selector"),
    ({**PLAIN, "monitoring": {"serviceMonitor": {"enabled": True}}}, "serviceMonitor needs envSecret"),
    ({**PLAIN, "share": {"enabled": True}}, "share needs envSecret"),
    ({**PLAIN, "replicas": 2}, "additional properties 'replicas' not allowed"),
    ({**PLAIN, "replicaCount": 0}, "at '/replicaCount': minimum"),
    ({**PLAIN, "gateway": {"limits": {"drain": 5}}}, "at '/gateway/limits': additional properties 'drain'"),
    ({**PLAIN, "gateway": {"listen": {"port": "80"}}}, "at '/gateway/listen/port': got string, want integer"),
]


def made(values: Values) -> dict[str, Any]:
    """The chart's defaults with values over them."""
    return dict(_over(YAML(typ="safe").load(helm.CHART / "values.yaml"), values))


def _over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return deepcopy(above)
    merged = {key: _over(below.get(key), value) for key, value in above.items()}
    return {**below, **merged}


@pytest.fixture(scope="module")
def rendered() -> tuple[list[str], list[Any]]:
    try:
        return helm.run([*GOOD.values(), *(values for values, _ in WRONG)])
    except cached.Unavailable as why:
        pytest.skip(str(why))


def texts(rendered: tuple[list[str], list[Any]], name: str) -> str:
    """All objects of one of GOOD as one text."""
    files = rendered[1][list(GOOD).index(name)]
    assert isinstance(files, dict), files
    return "\n---\n".join(text for file, text in files.items() if not file.endswith("NOTES.txt"))


def objects(rendered: tuple[list[str], list[Any]], name: str) -> Objects:
    documents = [each for each in YAML(typ="safe").load_all(texts(rendered, name)) if each]
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents), "no object is there twice"
    return found


def pod(found: Objects) -> dict[str, Any]:
    return dict(found["Deployment", "gate-poise"]["spec"]["template"]["spec"])


def gateway_file(found: Objects) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(found["ConfigMap", "gate-poise"]["data"]["gateway.yaml"]))


def test_lint_finds_nothing(rendered: tuple[list[str], list[Any]]) -> None:
    assert rendered[0] == []


@pytest.mark.parametrize(("values", "message"), WRONG, ids=[message for _, message in WRONG])
def test_helm_refuses_a_mistake(rendered: tuple[list[str], list[Any]], values: Values, message: str) -> None:
    assert message in rendered[1][len(GOOD) + WRONG.index((values, message))]


@pytest.mark.parametrize("name", GOOD)
def test_objects_hang_together(rendered: tuple[list[str], list[Any]], name: str) -> None:
    found = objects(rendered, name)
    assert {each["metadata"]["namespace"] for each in found.values()} == {helm.NAMESPACE}
    labels = found["Deployment", "gate-poise"]["spec"]["template"]["metadata"]["labels"]
    for service in ("gate-poise", "gate-poise-peers"):
        assert found["Service", service]["spec"]["selector"] == labels
    account = pod(found)["serviceAccountName"]
    assert account == "default" or ("ServiceAccount", account) in found
    mounts = {each["name"] for each in pod(found)["containers"][0]["volumeMounts"]}
    assert mounts == {each["name"] for each in pod(found)["volumes"]}


@pytest.mark.parametrize("name", GOOD)
def test_kubernetes_schemas_take_them(rendered: tuple[list[str], list[Any]], name: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(texts(rendered, name))
    ours = [kind for kind, _ in objects(rendered, name) if kind not in ("PrometheusRule", "ServiceMonitor")]
    assert validated([file]).count("passed for resource") == len(ours)


OPERATOR = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}
"""Kinds of the Prometheus operator, and the plurals by which their definitions are named."""


def operator(kind: str) -> crds.Schema:
    try:
        return crds.definition("monitoring.coreos.com", OPERATOR[kind])
    except cached.Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("kind", OPERATOR)
def test_the_operators_definitions_take_its_kinds(rendered: tuple[list[str], list[Any]], kind: str) -> None:
    assert list(crds.faults(operator(kind), objects(rendered, "all")[kind, "gate-poise"])) == []


def test_the_operators_definition_takes_the_monitor_of_the_manifests() -> None:
    monitor = manifests_made(secret="keys", monitor=True)["ServiceMonitor", "poise"]
    assert list(crds.faults(operator("ServiceMonitor"), monitor)) == []


@pytest.mark.parametrize(
    ("kind", "way", "value", "expected"),
    [
        ("ServiceMonitor", ("endpoints", 0, "interval"), "often", "does not match"),
        ("ServiceMonitor", ("endpoints", 0, "token"), "x", "token: is not a field"),
        ("ServiceMonitor", ("selector",), None, "no object"),
        ("PrometheusRule", ("groups", 0, "name"), "", "0 is not within 1"),
        ("PrometheusRule", ("groups", 0, "rules", 0), {"alert": "A"}, "expr: is missing"),
        ("PrometheusRule", ("groups", 0, "rules", 0, "expr"), [], "neither a whole number nor a string"),
    ],
)
def test_the_operators_definitions_refuse_a_mistake(
    rendered: tuple[list[str], list[Any]], kind: str, way: tuple[Any, ...], value: Any, expected: str
) -> None:
    broken = deepcopy(objects(rendered, "all")[kind, "gate-poise"])
    place = broken["spec"]
    for each in way[:-1]:
        place = place[each]
    place[way[-1]] = value
    (fault,) = crds.faults(operator(kind), broken)
    assert expected in fault


@pytest.mark.parametrize("name", GOOD)
def test_the_gateway_takes_its_file(rendered: tuple[list[str], list[Any]], name: str) -> None:
    found = objects(rendered, name)
    file = gateway_file(found)
    read = Gateway.model_validate(file)
    values = made(GOOD[name])["gateway"]
    given = {key: value for key, value in values.items() if value is not None}
    assert {key: file[key] for key in given} == given, "the user's fields are in it as they are"
    ports = {each["name"]: each["containerPort"] for each in pod(found)["containers"][0]["ports"]}
    assert ports["http"] == read.listen.port
    assert ports.get("admin") == (read.admin.port if read.admin.host == "0.0.0.0" else None)
    assert ports.get("picker") == (read.envoy.port if read.envoy else None)
    dns = "gate-poise-engines.serving.svc:8000"
    assert (read.discover.dns, ("Service", "gate-poise-engines") in found) == (
        (dns, True) if "engines" in GOOD[name] else (None, False)
    )


def test_gateways_that_share_find_one_another_by_the_headless_service(rendered: tuple[list[str], list[Any]]) -> None:
    found = objects(rendered, "shared")
    share = Gateway.model_validate(gateway_file(found)).share
    assert share is not None and (share.listen, share.dns) == ("0.0.0.0:9100", "gate-poise-peers.serving.svc:9100")
    ports = {each["name"]: each["port"] for each in found["Service", "gate-poise-peers"]["spec"]["ports"]}
    assert ports["peers"] == 9100
    assert "peers" not in {each["name"] for each in found["Service", "gate-poise"]["spec"]["ports"]}


def test_a_pod_is_closed_and_drains(rendered: tuple[list[str], list[Any]]) -> None:
    for name, grace in (("plain", 5 + 60 + 5), ("all", 5 + 13 + 5)):
        spec = pod(objects(rendered, name))
        (container,) = spec["containers"]
        assert spec["terminationGracePeriodSeconds"] == grace
        assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and security["capabilities"] == {"drop": ["ALL"]}
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_monitoring_is_that_of_the_repository(rendered: tuple[list[str], list[Any]]) -> None:
    found = objects(rendered, "all")
    deploy = helm.CHART.parents[1]
    assert found["PrometheusRule", "gate-poise"]["spec"] == YAML(typ="safe").load(deploy / "prometheus/alerts.yml")
    dashboard = found["ConfigMap", "gate-poise-dashboard"]
    assert json.loads(dashboard["data"]["poise.json"]) == json.loads((deploy / "grafana/poise.json").read_text())
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    monitor = found["ServiceMonitor", "gate-poise"]["spec"]
    services = [each for (kind, _), each in found.items() if kind == "Service"]
    wanted = monitor["selector"]["matchLabels"].items()
    (scraped,) = (each for each in services if wanted <= each["metadata"]["labels"].items())
    assert scraped["metadata"]["labels"][monitor["jobLabel"]] == "poise", "the alerts look for this job"
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in scraped["spec"]["ports"]}


def test_a_scaler_alone_sets_the_number_of_pods(rendered: tuple[list[str], list[Any]]) -> None:
    scaled, plain = objects(rendered, "all"), objects(rendered, "plain")
    assert "replicas" not in scaled["Deployment", "gate-poise"]["spec"]
    assert plain["Deployment", "gate-poise"]["spec"]["replicas"] == 1
    assert ("HorizontalPodAutoscaler", "gate-poise") not in plain


def test_a_changed_gateway_file_rolls_the_pods(rendered: tuple[list[str], list[Any]]) -> None:
    templates = [objects(rendered, name)["Deployment", "gate-poise"]["spec"]["template"] for name in GOOD]
    assert len({each["metadata"]["annotations"]["poise/gateway"] for each in templates}) == len(GOOD)
