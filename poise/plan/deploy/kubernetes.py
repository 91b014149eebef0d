"""Kubernetes manifests of a plan: engines by pool, and the gateway in front of them.

A pool alone is found by the name of a headless Service, and may grow and shrink. Where pools differ in role or speed
the gateway must know which engine is which, so their replicas have names of their own in its file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.catalogue.engines import engine_defaults
from poise.core.errors import UserError
from poise.core.spec import Pool
from poise.live.integrations.kubernetes import Manifests
from poise.plan.deploy.cap import LABEL, cap_comments
from poise.plan.deploy.check import check_objects
from poise.plan.deploy.gateway import FOLLOW, belief, prefill_rate, scaling
from poise.plan.deploy.place import pool_labels, spread
from poise.plan.deploy.pod import PORT, Object, pod
from poise.plan.deploy.product import OWN_IMAGE, OWN_LABEL, node_selector
from poise.plan.deploy.script import one_line
from poise.plan.deploy.setting import Setting
from poise.plan.deploy.yaml import dump
from poise.plan.fleet import Fleet

LONGEST_NAME = 46
"""Characters of a pool's objects: what controllers append must fit into 63."""

LLM_D = {"mixed": "both", "prefill": "prefill", "decode": "decode"}
"""`llm-d.ai/role` by role, as llm-d's schedulers read it."""


def kubernetes(fleet: Fleet, setting: Setting) -> str:
    """Engines and gateway; UserError for what manifests cannot express."""
    setting = settled(fleet, setting)
    comments = [f"The plan {one_line(fleet.written)}, router {fleet.router}: kubectl apply -f kubernetes.yaml"]
    if any(spread(pool, setting) > 1 for pool in fleet.pools):
        comments.append("Replicas of several nodes need the LeaderWorkerSet controller (leaderworkerset.x-k8s.io/v1)")
    unknown = {pool.device.name for pool in fleet.pools if OWN_LABEL in node_selector(pool.device)}
    comments += [f"Label the nodes that have them: kubectl label node NODE {OWN_LABEL}={name}" for name in unknown]
    comments += cap_comments(fleet)
    if scaling(fleet, setting):
        comments.append(FOLLOW)
    return _checked(engines(fleet, setting) + house(fleet, setting).objects(), comments)


def llm_d(fleet: Fleet, setting: Setting) -> str:
    """The gateway as endpoint picker of an InferencePool, in place of that in kubernetes.yaml."""
    if fleet.split:
        raise UserError("decode pods of an InferencePool need llm-d's sidecar; Poise's gateway pairs without one")
    comments = [
        f"The plan {one_line(fleet.written)} behind the Gateway {setting.gateway}:",
        "kubectl apply -f kubernetes.yaml -f llm-d.yaml",
    ]
    return _checked(house(fleet, setting, pool=setting.gateway).objects(), comments)


def settled(fleet: Fleet, setting: Setting) -> Setting:
    """The setting with the engine that runs; UserError where that is neither vLLM nor SGLang."""
    name = setting.engine or engine_defaults(fleet.pools[0].engine.name).name.lower()
    if name not in ("vllm", "sglang"):
        raise UserError(f"manifests are written for vllm and sglang, and the plan is of {name}; give engine, as vllm")
    return replace(setting, engine=name)  # type: ignore[arg-type]


def _checked(objects: list[Object], comments: list[str]) -> str:
    """Objects as YAML; UserError for what Kubernetes would refuse, such as a name with a space."""
    check_objects(objects)
    return dump(objects, comments)


def engines(fleet: Fleet, setting: Setting) -> list[Object]:
    """A workload and a Service for each pool."""
    if fleet.split and setting.engine != "vllm":
        raise UserError("Poise's gateway pairs prefill and decode engines of vLLM only; give engine vllm")
    made: list[Object] = []
    for pool, name in zip(fleet.pools, names(fleet, setting), strict=True):
        made += _pool(pool, name, setting, stable=len(fleet.pools) > 1)
    return made


def house(fleet: Fleet, setting: Setting, pool: str = "") -> Manifests:
    """The gateway. pool: a Gateway whose endpoint picker it is."""
    sections: dict[str, Any] = {"policies": {"router": fleet.router}, "belief": belief(fleet, setting, False)}
    sections |= scaling(fleet, setting)
    if len(fleet.pools) > 1:
        sections |= {"discover": {}, "engines": _named(fleet, setting)}
    return Manifests(
        setting.images.get("poise", OWN_IMAGE), _answering(setting),
        name=setting.name, namespace=setting.namespace, engine_port=PORT, gateway=sections, pool=pool,
    )  # fmt: skip


def names(fleet: Fleet, setting: Setting) -> list[str]:
    """The object names of each pool; UserError where a name is too long."""
    made = [f"{setting.name}-{each}" for each in pool_labels(fleet)]
    for each in made:
        if len(each) > LONGEST_NAME:
            raise UserError(f"name {setting.name!r}: {each!r} is longer than {LONGEST_NAME}; give a shorter name")
    return made


def _answering(setting: Setting) -> dict[str, str]:
    """The labels of pods that answer requests."""
    return {"poise/fleet": setting.name}


def _named(fleet: Fleet, setting: Setting) -> list[Object]:
    """Every replica by the name of its pod, or of its leader."""
    return [
        {
            "url": f"http://{name}-{number}.{name}.{setting.namespace}.svc:{PORT}",
            "name": f"{name}-{number}",
            "role": pool.role,
            "models": [pool.model.name],
            "prefill_tokens_per_s": prefill_rate(pool, setting),
        }
        for pool, name in zip(fleet.pools, names(fleet, setting), strict=True)
        for number in range(pool.replicas)
    ]


def _pool(pool: Pool, name: str, setting: Setting, *, stable: bool) -> list[Object]:
    """The Service and the workload of a pool. stable: whether replicas have stable names."""
    labels = {
        "app.kubernetes.io/name": setting.engine,
        "app.kubernetes.io/instance": name,
        "llm-d.ai/inference-serving": "true",
        "llm-d.ai/role": LLM_D[pool.role],
    }
    hosts = spread(pool, setting)
    answering = labels | _answering(setting)
    about: Object = {"labels": answering}
    about |= {"annotations": {LABEL: f"{pool.power_w:g}"}} if pool.slowed else {}
    template = {"metadata": about, "spec": pod(pool, setting, hosts)}
    if hosts > 1:
        spec = _groups(pool, hosts, template, pod(pool, setting, hosts, worker=True))
        workload = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}
    else:
        kind = "StatefulSet" if stable else "Deployment"
        made = _stable(name) if stable else {"strategy": _ROLLING, "progressDeadlineSeconds": 7200}
        common = {"replicas": pool.replicas, "selector": {"matchLabels": answering}}
        workload = {"apiVersion": "apps/v1", "kind": kind, "spec": {**common, **made, "template": template}}
    # The controller of a LeaderWorkerSet makes a Service of the set's name itself.
    service = _service(f"{name}-http" if hosts > 1 else name, answering, headless=stable)
    metadata = {"namespace": setting.namespace, "labels": labels}
    workload["metadata"] = {"name": name, **metadata}
    service["metadata"] |= metadata
    return [service, {key: workload[key] for key in ("apiVersion", "kind", "metadata", "spec")}]


_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
"""No surge: there are no spare devices for another pod."""


def _stable(name: str) -> Object:
    return {"serviceName": name, "podManagementPolicy": "Parallel"}


def _groups(pool: Pool, hosts: int, leader: Object, worker: Object) -> Object:
    """Replicas of several pods each, which start and fail together; workers have no label that leads requests there."""
    template = {
        "size": hosts,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": leader,
        "workerTemplate": {"spec": worker},
    }
    return {"replicas": pool.replicas, "leaderWorkerTemplate": template}


def _service(name: str, selector: dict[str, str], *, headless: bool) -> Object:
    spec: Object = {"selector": selector, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]}
    spec |= {"clusterIP": "None", "publishNotReadyAddresses": True} if headless else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
