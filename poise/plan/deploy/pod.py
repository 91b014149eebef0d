"""The pod of an engine: one process of a replica on the devices of one node."""

from __future__ import annotations

import shlex
from typing import Any

from poise.core.spec import Pool
from poise.plan.deploy import sglang, vllm
from poise.plan.deploy.place import SIDE
from poise.plan.deploy.product import image, node_selector, resource
from poise.plan.deploy.script import Spot
from poise.plan.deploy.setting import Setting

PORT = 8000
"""The port of an engine in its pod."""

LEADER, INDEX = "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)"
"""Variables that a LeaderWorkerSet sets in its pods, which Kubernetes expands in their commands."""

WEIGHTS = "/weights"
STARTING_S = 3600
"""Seconds until a pod must answer: weights may have to be fetched."""
LEAVING_S = 120
"""Seconds that requests get when a pod stops."""

Object = dict[str, Any]


def pod(pool: Pool, setting: Setting, hosts: int, *, worker: bool = False) -> Object:
    """The spec of a pod. hosts: pods of a replica.  worker: one that does not answer requests itself."""
    needed = resource(pool.device)
    return {
        "terminationGracePeriodSeconds": LEAVING_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service called vllm would set VLLM_PORT
        "nodeSelector": node_selector(pool.device),
        "tolerations": [{"key": needed, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container(pool, setting, hosts, worker)],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            {"name": "weights", **_weights(setting)},
        ],
    }


def _container(pool: Pool, setting: Setting, hosts: int, worker: bool) -> Object:
    spot = Spot("", LEADER, hosts, int(worker), PORT, INDEX if worker else "")
    command = sglang.command if setting.engine == "sglang" else vllm.command
    made: Object = {
        "name": setting.engine,
        "image": image(pool.device, setting),
        "command": words(command(pool, setting, spot)),
        "env": _variables(pool, setting),
        "resources": {"limits": {resource(pool.device): str(pool.devices // hosts)}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "weights", "mountPath": WEIGHTS}],
    }
    if worker:
        return made
    return made | {
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": _probe(10, STARTING_S // 10),
        "readinessProbe": _probe(5, 2),
        "livenessProbe": _probe(10, 6),
    }


def words(command: list[str]) -> list[str]:
    """A command as a pod's; one that computes with its index runs in a shell."""
    if not any(word.startswith("$$((") for word in command):
        return command
    quoted = (word if word.startswith("$") else shlex.quote(word) for word in command)
    return ["sh", "-c", f"exec {' '.join(quoted)}"]


def _variables(pool: Pool, setting: Setting) -> list[Object]:
    token = {"name": setting.token_secret, "key": "token", "optional": True}  # open models need none
    made: list[Object] = [
        {"name": "HF_HOME", "value": WEIGHTS},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
    ]
    if pool.role != "mixed":
        address = {"fieldRef": {"fieldPath": "status.podIP"}}
        made.append({"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": address})
        made.append({"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(PORT + SIDE)})
    return made


def _weights(setting: Setting) -> Object:
    claim = setting.cache_claim
    return {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}


def _probe(period_s: int, failures: int) -> Object:
    request = {"path": "/health", "port": "http"}
    return {"httpGet": request, "periodSeconds": period_s, "timeoutSeconds": 5, "failureThreshold": failures}
