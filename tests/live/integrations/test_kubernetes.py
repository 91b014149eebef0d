"""The manifests: what hangs together hangs together, and Kubernetes' own schemas take them."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from poise.core.errors import UserError
from poise.live.integrations.kubernetes import ADMIN_PORT, PICKER_PORT, PORT, TOKEN, manifests
from poise.live.requests.paths import READERS
from poise.plan.deploy.check import faults
from poise.scenario.serve.schema import Gateway
from tests import cached

IMAGE, ENGINES = "registry.example/poise:0.1", {"app": "vllm"}
VALIDATOR = "kubernetes-validate==1.37.0"


def made(**given: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects by kind and name, read back from the text."""
    documents = YAML(typ="safe").load_all(manifests(IMAGE, ENGINES, **given))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def container(objects: dict[tuple[str, str], Any], name: str = "poise") -> dict[str, Any]:
    (only,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def gateway_file(objects: dict[tuple[str, str], Any], name: str = "poise") -> dict[str, Any]:
    return dict(YAML(typ="safe").load(objects["ConfigMap", name]["data"]["gateway.yaml"]))


@pytest.mark.parametrize("given", [{}, {"name": "gate", "namespace": "serving", "engine_port": 9000, "secret": "keys"}])
def test_the_gateway_file_is_one_that_the_gateway_takes(given: dict[str, Any]) -> None:
    file = gateway_file(made(**given), given.get("name", "poise"))
    read = Gateway.model_validate(file)
    name, namespace = given.get("name", "poise"), given.get("namespace", "default")
    assert read.discover.dns == f"{name}-engines.{namespace}.svc:{given.get('engine_port', 8000)}"
    assert (read.listen.host, read.listen.port) == ("0.0.0.0", PORT)
    assert read.admin.port == (ADMIN_PORT if "secret" in given else None), (
        "the page is open to others with a token only"
    )


def test_names_and_labels_lead_from_one_to_the_other() -> None:
    objects = made(name="gate", namespace="serving", secret="keys", monitor=True, pool="inference")
    assert {each["metadata"]["namespace"] for each in objects.values()} == {"serving"}
    pod = objects["Deployment", "gate"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert objects["Deployment", "gate"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service", "gate"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget", "gate"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["ServiceMonitor", "gate"]["spec"]["selector"]["matchLabels"].items() <= (
        objects["Service", "gate"]["metadata"]["labels"].items()
    )
    assert objects["Service", "gate-engines"]["spec"]["selector"] == ENGINES
    assert objects["Service", "gate-engines"]["spec"]["clusterIP"] == "None"
    ports = {each["name"]: each["containerPort"] for each in container(objects, "gate")["ports"]}
    assert ports == {"http": PORT, "admin": ADMIN_PORT, "picker": PICKER_PORT}
    assert {each["targetPort"] for each in objects["Service", "gate"]["spec"]["ports"]} == set(ports)
    (volume, _) = pod["spec"]["volumes"]
    assert volume["configMap"]["name"] == "gate"
    assert container(objects, "gate")["envFrom"] == [{"secretRef": {"name": "keys"}}]
    credentials = objects["ServiceMonitor", "gate"]["spec"]["endpoints"][0]["authorization"]["credentials"]
    assert credentials == {"name": "keys", "key": TOKEN}


def test_the_pool_is_picked_from_by_the_gateway() -> None:
    objects = made(pool="inference", engine_port=9000)
    pool, route = objects["InferencePool", "poise"]["spec"], objects["HTTPRoute", "poise"]["spec"]
    assert pool["selector"]["matchLabels"] == ENGINES and pool["targetPorts"] == [{"number": 9000}]
    assert pool["endpointPickerRef"] == {"name": "poise", "port": {"number": PICKER_PORT}, "failureMode": "FailClose"}
    assert route["parentRefs"] == [{"name": "inference"}]
    assert route["rules"][0]["backendRefs"][0]["name"] == "poise"
    assert gateway_file(objects)["envoy"] == {"host": "0.0.0.0", "port": PICKER_PORT}


def test_the_route_takes_every_path_that_the_gateway_decides_on() -> None:
    (rule,) = made(pool="inference")["HTTPRoute", "poise"]["spec"]["rules"]
    paths = [each["path"] for each in rule["matches"]]
    below = [path["value"] for path in paths if path["type"] == "PathPrefix"]
    exact = {path["value"] for path in paths if path["type"] == "Exact"}
    assert below == ["/v1"]
    assert {path.decode() for path in READERS if not path.startswith(b"/v1/")} == exact
    assert exact >= {"/rerank", "/v2/rerank", "/score", "/tokenize", "/detokenize", "/classify", "/pooling"}


OTHERS = ("InferencePool", "HTTPRoute", "ServiceMonitor")
"""Kinds of other projects."""


def test_published_definitions_take_them() -> None:
    objects = made(pool="inference", engine_port=9000, secret="keys", monitor=True)
    assert list(faults(list(objects.values()))) == []
    assert {kind for kind, _ in objects} >= set(OTHERS)
    (backend,) = objects["HTTPRoute", "poise"]["spec"]["rules"][0]["backendRefs"]
    assert (backend["group"], backend["kind"]) == ("inference.networking.k8s.io", "InferencePool")


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        ("InferencePool", "extensionRef", {}, "spec.extensionRef: is not a field"),
        ("InferencePool", "targetPorts", [], "spec.targetPorts: has 0 items"),
        ("InferencePool", "targetPorts.0.number", "80", "spec.targetPorts[0].number: '80' is not an integer"),
        (
            "InferencePool",
            "endpointPickerRef.failureMode",
            "failClose",
            "'failClose' is not one of FailOpen, FailClose",
        ),
        ("InferencePool", "endpointPickerRef.port.number", 70_000, "number: 70000 is not within 1 to 65535"),
        ("HTTPRoute", "rules.0.timeouts.request", "0", "request: '0' does not match"),
        ("HTTPRoute", "rules.0.matches.0.path.type", "Prefix", "'Prefix' is not one of Exact, PathPrefix"),
        ("ServiceMonitor", "endpoints.0.authorization.credentials", {"name": "n"}, "credentials.key: is missing"),
    ],
)
def test_the_definitions_refuse_what_they_refuse(kind: str, path: str, value: Any, expected: str) -> None:
    broken = made(pool="inference", secret="keys", monitor=True)[kind, "poise"]
    place = broken["spec"]
    *way, last = path.split(".")
    for each in way:
        place = place[int(each) if each.isdigit() else each]
    place[last] = value
    (fault,) = faults([broken])
    assert expected in fault


def test_a_pod_has_time_to_leave() -> None:
    objects = made(gateway={"limits": {"drain_s": 200}})
    pod = objects["Deployment", "poise"]["spec"]["template"]["spec"]
    before = container(objects)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > 200 + before
    assert objects["Deployment", "poise"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_a_pod_may_do_nothing_that_it_need_not() -> None:
    objects = made()
    pod = objects["Deployment", "poise"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
    rights = container(objects)["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}


def test_a_changed_file_rolls_the_pods() -> None:
    first, same, other = (
        made(gateway={"policies": {"router": router}})["Deployment", "poise"]["spec"]["template"]
        for router in ("dualmap", "dualmap", "preble")
    )
    assert first == same != other


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "Poise"}, "name 'Poise' is not a valid name in Kubernetes"),
        ({"namespace": ""}, "namespace '' is not a valid name"),
        ({"replicas": 0}, "replicas 0 must be 1 or more"),
        ({"monitor": True}, f"monitor needs secret: name a Secret with {TOKEN}"),
        ({"gateway": {"listen": {"port": 1}}}, "gateway.listen is settled by the manifests"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        manifests(IMAGE, ENGINES, **given)
    assert message in str(error.value)


def test_engines_must_be_found_by_something() -> None:
    with pytest.raises(UserError, match="engines is empty"):
        manifests(IMAGE, {})


def validated(files: list[Path]) -> str:
    """What Kubernetes' schemas say of manifests that they take; the test is skipped where they cannot be had."""
    try:
        library = cached.library(VALIDATOR)
    except cached.Unavailable as why:
        pytest.skip(str(why))
    ended = subprocess.run(
        [sys.executable, "-c", "from kubernetes_validate.__main__ import main; main()", "--strict", *map(str, files)],
        env={**os.environ, "PYTHONPATH": str(library)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed
    return printed


@pytest.mark.slow
def test_kubernetes_own_schemas_take_them(tmp_path: Path) -> None:
    files = []
    for secret, monitor, pool in product(("", "keys"), (False, True), ("", "inference")):
        if secret or not monitor:
            files.append(tmp_path / f"{secret}-{monitor}-{pool}.yaml")
            files[-1].write_text(manifests(IMAGE, ENGINES, secret=secret, monitor=monitor, pool=pool, replicas=2))
    text = validated(files)
    assert text.count("passed for resource") == 5 * len(files), text
