"""Kubernetes manifests of a gateway, as YAML to look at, change and apply.

    print(manifests("registry.example/poise:0.1", {"app": "vllm"}))

A gateway's queue and prefix index are its own: one replica decides best, more of them share nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from poise.core.errors import UserError
from poise.live.requests.paths import READERS

PORT: Final = 8000
ADMIN_PORT: Final = 8001
PICKER_PORT: Final = 9002
"""The ports of clients, of the page with the metrics, and of Envoy; inference pools assume 9002."""
TOKEN: Final = "POISE_ADMIN_TOKEN"
"""The variable, and the key in the secret, with the token that guards the page and the metrics."""
LEAVING_S: Final = 5
"""Seconds until the whole cluster has seen that a pod stops: before that it still takes requests."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of one gateway on Kubernetes, in `objects`.

    image: of the gateway.  engines: labels of the engines' pods, which listen on `engine_port`.
    gateway: sections of the gateway file, in place of those made here; not listen, admin and envoy.
    secret: a Secret whose keys become variables (`api_key_env` and the like); its POISE_ADMIN_TOKEN opens the page and
    the metrics to other pods.  cpu, memory: of one pod.  monitor: a ServiceMonitor of the Prometheus operator.
    pool: a Gateway of the Gateway API, whose requests Poise places as its endpoint picker; empty for none.
    """

    image: str
    engines: Mapping[str, str]
    name: str = "poise"
    namespace: str = "default"
    engine_port: int = 8000
    replicas: int = 1
    gateway: Mapping[str, Any] = field(default_factory=dict)
    secret: str = ""
    cpu: str = "1"
    memory: str = "1Gi"
    monitor: bool = False
    pool: str = ""

    def __post_init__(self) -> None:
        for word in ("name", "namespace"):
            given = getattr(self, word)
            if not _NAME.fullmatch(given):
                raise UserError(
                    f"{word} {given!r} is not a valid name in Kubernetes; give a-z, 0-9 and - that begin with a letter"
                )
        if not self.engines:
            raise UserError("engines is empty; give the labels of the engines' pods, as in {'app': 'vllm'}")
        if self.replicas < 1:
            raise UserError(f"replicas {self.replicas} must be 1 or more")
        made = sorted({"listen", "admin", "envoy"} & set(self.gateway))
        if made:
            raise UserError(f"gateway.{made[0]} is settled by the manifests; leave it out, or change what they print")
        if self.monitor and not self.secret:
            raise UserError(f"monitor needs secret: name a Secret with {TOKEN}, by which Prometheus reads the metrics")

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all objects."""
        return {"app.kubernetes.io/name": "poise", "app.kubernetes.io/instance": self.name}

    @property
    def file(self) -> Object:
        """The gateway file."""
        made: Object = {
            "listen": {"host": "0.0.0.0", "port": PORT},
            "admin": {"host": "0.0.0.0", "port": ADMIN_PORT, "token_env": TOKEN} if self.secret else {"port": None},
            "discover": {"dns": f"{self.name}-engines.{self.namespace}.svc:{self.engine_port}"},
            "policies": {"router": "prefix_cache"},
            "limits": {"drain_s": 60},
            "log": {"format": "json"},
        }
        if self.pool:
            made["envoy"] = {"host": "0.0.0.0", "port": PICKER_PORT}
        return {**made, **self.gateway}

    @property
    def ports(self) -> dict[str, int]:
        """Its ports by name."""
        ports = {"http": PORT}
        if self.secret:
            ports["admin"] = ADMIN_PORT
        if self.pool:
            ports["picker"] = PICKER_PORT
        return ports

    def objects(self) -> list[Object]:
        """All objects, in the order in which they are best applied."""
        labels, name = self.labels, self.name
        made = [
            _object("v1", "ConfigMap", name, data={"gateway.yaml": _yaml([self.file])}),
            _object("v1", "Service", f"{name}-engines", spec=_headless(self.engines, self.engine_port)),
            _object("apps/v1", "Deployment", name, spec=_deployment(self)),
            _object("v1", "Service", name, spec={"selector": labels, "ports": [*map(_port, self.ports.items())]}),
            _object("policy/v1", "PodDisruptionBudget", name, spec=_budget(labels)),
        ]
        if self.monitor:
            made.append(_object("monitoring.coreos.com/v1", "ServiceMonitor", name, spec=_monitor(self)))
        if self.pool:
            made.append(_object("inference.networking.k8s.io/v1", "InferencePool", name, spec=_pool(self)))
            made.append(_object("gateway.networking.k8s.io/v1", "HTTPRoute", name, spec=_route(self)))
        for each in made:
            each["metadata"] |= {"namespace": self.namespace, "labels": labels}
        return made


def manifests(image: str, engines: Mapping[str, str], **given: Any) -> str:
    """All objects of a `Manifests` as YAML documents."""
    return _yaml(Manifests(image, engines, **given).objects())


def _object(version: str, kind: str, name: str, **content: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


def _headless(engines: Mapping[str, str], port: int) -> Object:
    """A headless service: its name resolves to the addresses of the engines."""
    ports = [{"name": "http", "port": port, "targetPort": port}]
    return {"clusterIP": "None", "selector": dict(engines), "ports": ports}


def _deployment(house: Manifests) -> Object:
    drain = int(house.file["limits"].get("drain_s", 30))
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": LEAVING_S + drain + 5,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(house)],
        "volumes": [{"name": "gateway", "configMap": {"name": house.name}}, {"name": "tmp", "emptyDir": {}}],
    }  # fmt: skip
    digest = sha256(_yaml([house.file]).encode()).hexdigest()[:16]  # a changed file rolls the pods
    return {
        "replicas": house.replicas,
        "selector": {"matchLabels": house.labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": house.labels, "annotations": {"poise/gateway": digest}}, "spec": pod},
    }


def _container(house: Manifests) -> Object:
    made: Object = {
        "name": "poise",
        "image": house.image,
        "args": ["serve", "/etc/poise/gateway.yaml"],
        "ports": [{"name": name, "containerPort": port} for name, port in house.ports.items()],
        "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 2, "failureThreshold": 2},
        "lifecycle": {"preStop": {"sleep": {"seconds": LEAVING_S}}},
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": house.cpu, "memory": house.memory}, "limits": {"memory": house.memory}},
        "volumeMounts": [
            {"name": "gateway", "mountPath": "/etc/poise", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }  # fmt: skip
    if house.secret:
        made["envFrom"] = [{"secretRef": {"name": house.secret}}]
    return made


def _port(port: tuple[str, int]) -> Object:
    name, number = port
    made: Object = {"name": name, "port": number, "targetPort": name}
    return made | {"appProtocol": "kubernetes.io/h2c"} if name == "picker" else made


def _budget(labels: dict[str, str]) -> Object:
    return {"maxUnavailable": 1, "selector": {"matchLabels": labels}}


def _monitor(house: Manifests) -> Object:
    credentials = {"name": house.secret, "key": TOKEN}
    scraped = {"port": "admin", "path": "/metrics", "authorization": {"type": "Bearer", "credentials": credentials}}
    return {"selector": {"matchLabels": house.labels}, "endpoints": [scraped]}


def _pool(house: Manifests) -> Object:
    """The engines as the Gateway API Inference Extension knows them, and who picks among them."""
    return {
        "selector": {"matchLabels": dict(house.engines)},
        "targetPorts": [{"number": house.engine_port}],
        "endpointPickerRef": {"name": house.name, "port": {"number": PICKER_PORT}, "failureMode": "FailClose"},
    }


def _route(house: Manifests) -> Object:
    pool = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": house.name}
    rule = {"matches": [{"path": path} for path in _paths()], "backendRefs": [pool]}
    return {"parentRefs": [{"name": house.pool}], "rules": [rule | {"timeouts": {"request": "0s"}}]}


def _paths() -> list[Object]:
    """The paths that the gateway decides on: all below /v1, and each of the others."""
    others = sorted(path.decode() for path in READERS if not path.startswith(b"/v1/"))
    return [{"type": "PathPrefix", "value": "/v1"}, *({"type": "Exact", "value": path} for path in others)]


def _yaml(documents: list[Object]) -> str:
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda data: True
    out = StringIO()
    shown = [_blocks(each) for each in documents]
    yaml.dump_all(shown, out) if len(shown) > 1 else yaml.dump(shown[0], out)
    return out.getvalue()


def _blocks(value: Any) -> Any:
    """Texts of several lines as blocks."""
    if isinstance(value, dict):
        return {key: _blocks(each) for key, each in value.items()}
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
