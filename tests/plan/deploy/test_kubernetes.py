"""Manifests of a plan: Kubernetes' schemas take them, names lead from one to the other, devices add up."""

from __future__ import annotations

import shlex
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML

from poise.core.errors import UserError
from poise.core.spec import Engine
from poise.plan.deploy import Setting
from poise.plan.deploy.check import check, faults, pods
from poise.plan.deploy.kubernetes import kubernetes, llm_d
from poise.plan.fleet import Fleet
from poise.scenario.serve.schema import Gateway
from tests.depth import examples
from tests.live.integrations.test_kubernetes import validated
from tests.plan.deploy import fleets as drawn
from tests.plan.deploy.fleets import a_pool, a_setting, fleets

Objects = dict[tuple[str, str], dict[str, Any]]

EQUAL = Fleet((a_pool(replicas=3, tensor=2),), "prefix_cache")
SPLIT = Fleet((a_pool(role="prefill"), a_pool(kind="L40S", role="decode", replicas=2)), "pd_pair")
WIDE = Fleet((a_pool("deepseek-v3", "H100", data=32, expert=32, weights="fp8", replicas=2),))


def objects(text: str) -> Objects:
    return {(each["kind"], each["metadata"]["name"]): each for each in YAML(typ="safe").load_all(text)}


def made(fleet: Fleet, setting: Setting | None = None) -> Objects:
    return objects(kubernetes(fleet, setting or a_setting()))


def devices(each: dict[str, Any]) -> int:
    """Devices of all pods of an object."""
    spec = each["spec"]
    counts = [
        int(amount) for pod in pods(each) for amount in pod["containers"][0].get("resources", {})["limits"].values()
    ]
    if each["kind"] == "LeaderWorkerSet":
        leader, worker = counts
        return int(spec["replicas"]) * (leader + worker * (spec["leaderWorkerTemplate"]["size"] - 1))
    return int(spec["replicas"]) * counts[0]


def engines(found: Objects) -> list[dict[str, Any]]:
    """The workloads of engines."""
    kinds = ("Deployment", "StatefulSet", "LeaderWorkerSet")
    return [each for (kind, name), each in found.items() if kind in kinds and name != "poise"]


@pytest.mark.deep
@given(fleet=fleets(), setting=drawn.settings)
@settings(max_examples=examples(40))
def test_manifests_are_valid_and_devices_add_up(fleet: Fleet, setting: Setting) -> None:
    for manifests in (kubernetes, llm_d):
        try:
            text = manifests(fleet, setting)
        except UserError:
            continue
        check(text)
        found = objects(text)
        if manifests is kubernetes:
            assert sum(map(devices, engines(found))) == fleet.devices
            roles = [each["metadata"]["labels"]["llm-d.ai/role"] for each in engines(found)]
            assert roles == [{"mixed": "both"}.get(pool.role, pool.role) for pool in fleet.pools]


def gateway_file(found: Objects) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(found["ConfigMap", "poise"]["data"]["gateway.yaml"]))


def test_a_pool_alone_is_discovered() -> None:
    found = made(EQUAL)
    file = Gateway.model_validate(gateway_file(found))
    assert file.discover.dns == "poise-engines.default.svc:8000" and not file.engines
    assert file.policies.router == "prefix_cache"
    wanted = found["Service", "poise-engines"]["spec"]["selector"].items()
    template = found["Deployment", "poise-h100-sxm-80gb"]["spec"]["template"]
    assert wanted <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert container["command"][:2] == ["vllm", "serve"]
    assert container["command"][container["command"].index("--port") + 1] == str(container["ports"][0]["containerPort"])
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert not wanted <= found["Deployment", "poise"]["spec"]["template"]["metadata"]["labels"].items()
    answering = found["Service", "poise-h100-sxm-80gb"]["spec"]["selector"].items()
    assert answering <= template["metadata"]["labels"].items()


def test_replicas_that_differ_have_names() -> None:
    found = made(SPLIT)
    file = Gateway.model_validate(gateway_file(found))
    assert file.discover.dns is None
    assert [(each.role, each.url) for each in file.engines] == [
        ("prefill", "http://poise-prefill-h100-sxm-80gb-0.poise-prefill-h100-sxm-80gb.default.svc:8000"),
        ("decode", "http://poise-decode-l40s-0.poise-decode-l40s.default.svc:8000"),
        ("decode", "http://poise-decode-l40s-1.poise-decode-l40s.default.svc:8000"),
    ]
    workload = found["StatefulSet", "poise-decode-l40s"]["spec"]
    service = found["Service", workload["serviceName"]]["spec"]
    assert workload["serviceName"] == "poise-decode-l40s" and service["clusterIP"] == "None"
    assert service["selector"].items() <= workload["template"]["metadata"]["labels"].items()
    env = {each["name"] for each in workload["template"]["spec"]["containers"][0]["env"]}
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in env


def test_replicas_of_several_nodes_are_groups() -> None:
    found = made(WIDE)
    spec = found["LeaderWorkerSet", "poise-h100-sxm-80gb"]["spec"]
    group = spec["leaderWorkerTemplate"]
    assert (spec["replicas"], group["size"]) == (2, 4)
    leader, worker = (group[each]["spec"]["containers"][0] for each in ("leaderTemplate", "workerTemplate"))
    words = leader["command"]
    assert words[words.index("--data-parallel-address") + 1] == "$(LWS_LEADER_ADDRESS)"
    assert worker["command"][:2] == ["sh", "-c"]
    command = worker["command"][2].replace("$$", "$")  # as Kubernetes hands it to the shell
    assert (
        command.endswith("--enable-prefix-caching")
        and "--data-parallel-start-rank $((8 * LWS_WORKER_INDEX))" in command
    )
    assert shlex.split(command)[:4] == ["exec", "vllm", "serve", "deepseek-ai/DeepSeek-V3"]
    assert "readinessProbe" in leader and "readinessProbe" not in worker
    service = found["Service", "poise-h100-sxm-80gb-http"]["spec"]["selector"]
    assert service.items() <= group["leaderTemplate"]["metadata"]["labels"].items()
    assert "metadata" not in group["workerTemplate"], "no request goes to workers"
    stages = made(Fleet((a_pool("llama-3.1-70b", tensor=8, pipeline=2),)))
    group = stages["LeaderWorkerSet", "poise-h100-sxm-80gb"]["spec"]["leaderWorkerTemplate"]
    words = group["workerTemplate"]["spec"]["containers"][0]["command"]
    assert words[words.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)" and "--headless" in words


def test_an_inference_pool_has_all_engines_and_poise_as_its_picker() -> None:
    setting = a_setting(gateway="front", namespace="serving")
    found = objects(llm_d(EQUAL, setting))
    pool = found["InferencePool", "poise"]["spec"]
    labels = objects(kubernetes(EQUAL, setting))["Deployment", "poise-h100-sxm-80gb"]["spec"]["template"]["metadata"]
    assert pool["selector"]["matchLabels"].items() <= labels["labels"].items()
    picker, ports = pool["endpointPickerRef"], found["Service", "poise"]["spec"]["ports"]
    assert picker["name"] == "poise" and picker["port"]["number"] in [each["port"] for each in ports]
    assert found["HTTPRoute", "poise"]["spec"]["parentRefs"] == [{"name": "front"}]
    with pytest.raises(UserError, match="decode pods of an InferencePool need llm-d's sidecar"):
        llm_d(SPLIT, setting)


def test_other_devices_and_engines() -> None:
    fleet = Fleet((a_pool(kind="MI300X"),))
    (workload,) = engines(made(fleet))
    pod = workload["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "1"}
    assert pod["nodeSelector"] == {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    text = kubernetes(Fleet((a_pool(kind="MI325X"),)), a_setting())
    assert "kubectl label node NODE poise/device=MI325X" in text
    (workload,) = engines(made(EQUAL, a_setting(engine="sglang")))
    assert "sglang.launch_server" in workload["spec"]["template"]["spec"]["containers"][0]["command"]


@pytest.mark.parametrize(
    ("fleet", "given", "message"),
    [
        (Fleet((a_pool(engine=Engine("TensorRT-LLM")),)), {}, "and the plan is of tensorrt-llm; give engine"),
        (SPLIT, {"engine": "sglang"}, "pairs prefill and decode engines of vLLM only"),
        (Fleet((a_pool(kind="MI300X"),)), {"engine": "sglang"}, "no image of sglang for AMD's devices is known"),
        (EQUAL, {"name": "x" * 40}, "is longer than 46; give a shorter name"),
        (EQUAL, {"name": "Poise"}, "name 'Poise' is not a valid name in Kubernetes"),
        (EQUAL, {"cache_claim": "My Claim"}, "persistentVolumeClaim.claimName: 'My Claim' does not match"),
        (EQUAL, {"images": {"NVIDIA": "an image"}}, "containers[0].image: 'an image' does not match"),
    ],
)
def test_what_cannot_be_is_named(fleet: Fleet, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        kubernetes(fleet, a_setting(**given))
    assert message in str(error.value)


SPEC = "spec.template.spec"


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    """Of each kind one at least."""
    texts = (kubernetes(EQUAL, a_setting()), llm_d(EQUAL, a_setting()), kubernetes(WIDE, a_setting()))
    return [each for text in texts for each in YAML(typ="safe").load_all(text)]


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        ("Deployment", "spec.replica", 2, "spec.replica: is not a field"),
        ("Deployment", "spec.replicas", "3", "spec.replicas: '3' is not an integer"),
        ("Deployment", "spec.replicas", True, "spec.replicas: True is not an integer"),
        ("Deployment", "spec.replicas", -1, "spec.replicas: -1 is not within 0 to"),
        ("Deployment", "spec.selector", None, "spec.selector: is missing"),
        ("Deployment", "spec.selector.matchLabels", {"a": "b"}, "its selector does not match its own pods' labels"),
        ("Deployment", "spec.strategy.type", "Rolling", "'Rolling' is not one of RollingUpdate, Recreate"),
        ("Deployment", f"{SPEC}.containers.0.image", None, "containers[0].image: is missing"),
        ("Deployment", f"{SPEC}.containers.0.name", "vLLM", "containers[0].name: 'vLLM' does not match"),
        ("Deployment", f"{SPEC}.containers.0.command", "vllm serve", "command: 'vllm serve' is not a list"),
        ("Deployment", f"{SPEC}.containers.0.command.3", 8000, "command[3]: 8000 is not a string"),
        ("Deployment", f"{SPEC}.containers.0.resources.limits", {"nvidia.com/gpu": 2}, "gpu: 2 is not a string"),
        ("Deployment", f"{SPEC}.containers.0.resources.limits", {"nvidia.com/gpu": "two"}, "'two' does not match"),
        ("Deployment", f"{SPEC}.containers.0.env.1.name", "HF_HOME", "env: name 'HF_HOME' is there twice"),
        ("Deployment", f"{SPEC}.containers.0.readinessProbe.path", "/x", "readinessProbe.path: is not a field"),
        ("Deployment", f"{SPEC}.containers.0.readinessProbe.httpGet.port", "web", "and the container has no such port"),
        ("Deployment", f"{SPEC}.containers.0.volumeMounts.0.name", "dshm", "and the pod has no such volume"),
        ("Deployment", f"{SPEC}.volumes.0.emptyDir.medium", "RAM", "'RAM' is not one of Memory"),
        ("Deployment", f"{SPEC}.tolerations.0.operator", "exists", "'exists' is not one of"),
        ("Deployment", "metadata.name", "a.b", "metadata.name: 'a.b' does not match"),
        ("Deployment", "metadata.labels", {"a b": "c"}, "key 'a b': 'a b' does not match"),
        ("Deployment", "status", {}, "status: is not a field"),
        ("Deployment", "apiVersion", "apps/v1beta1", "apps/v1beta1 Deployment is not a known kind"),
        ("Service", "spec.ports.0.port", 70000, "spec.ports[0].port: 70000 is not within 1 to 65535"),
        ("Service", "spec.ports.0.targetPort", "", "targetPort: has 0 characters; 1 to 15 are allowed"),
        ("InferencePool", "spec.targetPorts", [], "spec.targetPorts: has 0 items; 1 to 8 are allowed"),
        ("InferencePool", "spec.selector.matchLabels", {}, "spec.selector.matchLabels: has 0 entries; 1 to"),
        ("InferencePool", "spec.extensionRef", {}, "spec.extensionRef: is not a field"),
        ("InferencePool", "spec.endpointPickerRef.port", None, "endpointPickerRef.port: is missing"),
        ("ConfigMap", "data", {"gateway.yaml": {}}, "data.gateway.yaml: {} is not a string"),
        ("ConfigMap", "metadata.name", "a_b", "metadata.name: 'a_b' does not match"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.size", 0, "size: 0 is not within 1 to"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.workerTemplate", None, "workerTemplate: is missing"),
    ],
)
def test_broken_manifests_are_refused(
    documents: list[dict[str, Any]], kind: str, path: str, value: Any, expected: str
) -> None:
    """Each by its document and field; None takes the field away."""
    broken = deepcopy(next(each for each in documents if each["kind"] == kind))
    place: Any = broken
    *way, last = path.split(".")
    for each in way:
        place = place[int(each) if each.isdigit() else each]
    if value is None:
        del place[last]
    else:
        place[int(last) if last.isdigit() else last] = value
    found = list(faults([broken]))
    assert len(found) == 1 and expected in found[0]
    assert kind in found[0] and (found[0].startswith("document 1 ") or broken["metadata"]["name"] in found[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "manifests are no YAML"),
        ("- 1", "document 1: is not a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "document 1 (Pod): v1 Pod is not a known kind"),
        ("apiVersion: v1\nkind: Service\nspec: {}\n", "document 1 (Service).metadata: is missing"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "document 1 (Service).spec: is missing"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        check(text)
    assert message in str(error.value)


def test_an_object_that_is_there_twice() -> None:
    text = kubernetes(EQUAL, a_setting())
    with pytest.raises(UserError, match="Deployment poise: is there twice"):
        check(f"{text}---\n{text}")


@pytest.mark.slow
def test_kubernetes_own_schemas_take_them(tmp_path: Path) -> None:
    """Those of its own kinds; the validator does not know other projects'."""
    known = ("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "StatefulSet")
    files, count = [], 0
    for name, fleet in {"equal": EQUAL, "split": SPLIT, "wide": WIDE}.items():
        for claim in ("", "weights"):
            documents = YAML(typ="safe").load_all(kubernetes(fleet, a_setting(cache_claim=claim)))
            kept = [each for each in documents if each["kind"] in known]
            count += len(kept)
            files.append(tmp_path / f"{name}{claim}.yaml")
            with files[-1].open("w") as file:
                YAML().dump_all(kept, file)
    assert validated(files).count("passed for resource") == count
