"""The kinds of objects that manifests have, with the fields that are written: names, types, bounds and what is needed.

From the published definitions: Kubernetes v1.37 (api/openapi-spec), LeaderWorkerSet v0.9.0 and InferencePool v1.6.0
(config/crd/bases of kubernetes-sigs/lws and of kubernetes-sigs/gateway-api-inference-extension), HTTPRoute of Gateway
API v1.3.0, ServiceMonitor of the Prometheus operator v0.84.1. What is not here is refused, so that whoever writes one
field more looks it up first. What the API server checks beyond the definitions is checked too: the form of names and
labels, a template's spec, a container's image, the name of a Secret, the port of a picker that is a Service.
"""

from __future__ import annotations

from poise.plan.deploy.shape import Either, Fields, Flag, Many, Shape, Table, Text, Whole

ANY, YES, COUNT, PORT = Text(), Flag(), Whole(), Whole(1, 65535)
LABEL = Text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", least=1, most=63)
SERVICE = Text(r"^[a-z]([-a-z0-9]*[a-z0-9])?$", least=1, most=63)
NAME = Text(r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", least=1, most=253)
KEY = Text(r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", most=317)
LABELS = Table(KEY, Text(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", most=63))
QUANTITY = Text(r"^[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?$")
PORT_NAME = Text(r"^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$", least=1, most=15)
TARGET = Either(PORT, PORT_NAME)
SHARE = Either(COUNT, Text(r"^[0-9]+%$"))
GROUP = Text(r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", most=253)
KIND = Text(r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$", least=1, most=63)
DURATION = Text(r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")

SELECTOR = Fields({"matchLabels": LABELS})
SECRET_KEY = Fields({"name": NAME, "key": ANY, "optional": YES}, "name key")
SOURCE = Fields({"secretKeyRef": SECRET_KEY, "fieldRef": Fields({"fieldPath": ANY, "apiVersion": ANY}, "fieldPath")})
VARIABLE = Fields({"name": Text(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"), "value": ANY, "valueFrom": SOURCE}, "name")
PROBE = Fields(
    {
        "httpGet": Fields({"path": ANY, "port": TARGET, "scheme": Text(choices="HTTP HTTPS")}, "port"),
        "initialDelaySeconds": COUNT,
        "periodSeconds": Whole(1),
        "timeoutSeconds": Whole(1),
        "successThreshold": Whole(1),
        "failureThreshold": Whole(1),
    }
)
RIGHTS = Fields(
    {
        "allowPrivilegeEscalation": YES,
        "readOnlyRootFilesystem": YES,
        "capabilities": Fields({"add": Many(ANY), "drop": Many(ANY)}),
    }
)
AMOUNTS = Table(KEY, QUANTITY)
CONTAINER = Fields(
    {
        "name": LABEL,
        "image": Text(r"^\S+$", least=1),
        "command": Many(ANY),
        "args": Many(ANY),
        "env": Many(VARIABLE, key="name"),
        "envFrom": Many(Fields({"secretRef": Fields({"name": NAME, "optional": YES}), "prefix": ANY})),
        "ports": Many(Fields({"name": PORT_NAME, "containerPort": PORT}, "containerPort"), key="name"),
        "resources": Fields({"limits": AMOUNTS, "requests": AMOUNTS}),
        "volumeMounts": Many(
            Fields({"name": LABEL, "mountPath": Text(r"^/[^:]*$"), "readOnly": YES}, "name mountPath"), key="mountPath"
        ),
        "startupProbe": PROBE,
        "readinessProbe": PROBE,
        "livenessProbe": PROBE,
        "lifecycle": Fields({"preStop": Fields({"sleep": Fields({"seconds": COUNT}, "seconds")})}),
        "securityContext": RIGHTS,
    },
    "name image",
)
VOLUME = Fields(
    {
        "name": LABEL,
        "emptyDir": Fields({"medium": Text(choices="Memory"), "sizeLimit": QUANTITY}),
        "configMap": Fields({"name": NAME, "optional": YES}),
        "persistentVolumeClaim": Fields({"claimName": NAME, "readOnly": YES}, "claimName"),
    },
    "name",
)
TOLERATION = Fields(
    {
        "key": KEY,
        "operator": Text(choices="Exists Equal Lt Gt"),
        "value": ANY,
        "effect": Text(choices="NoSchedule PreferNoSchedule NoExecute"),
    }
)
POD = Fields(
    {
        "terminationGracePeriodSeconds": COUNT,
        "automountServiceAccountToken": YES,
        "enableServiceLinks": YES,
        "nodeSelector": LABELS,
        "tolerations": Many(TOLERATION),
        "securityContext": Fields(
            {
                "runAsNonRoot": YES,
                "runAsUser": COUNT,
                "runAsGroup": COUNT,
                "seccompProfile": Fields({"type": Text(choices="RuntimeDefault Unconfined Localhost")}, "type"),
            }
        ),
        "containers": Many(CONTAINER, 1, key="name"),
        "volumes": Many(VOLUME, key="name"),
    },
    "containers",
)
TEMPLATE = Fields({"metadata": Fields({"labels": LABELS, "annotations": Table(KEY, ANY)}), "spec": POD}, "spec")
ROLLING = Fields({"maxUnavailable": SHARE, "maxSurge": SHARE})
SERVICE_PORT = Fields(
    {
        "name": PORT_NAME,
        "port": PORT,
        "targetPort": TARGET,
        "protocol": Text(choices="TCP UDP SCTP"),
        "appProtocol": ANY,
    },
    "port",
)
PICKER = Fields(
    {
        "group": GROUP,
        "kind": KIND,
        "name": NAME,
        "port": Fields({"number": PORT}, "number"),
        "failureMode": Text(choices="FailOpen FailClose"),
    },
    "name port",  # a Service, which it is if no kind is given, is called at a port
)
BACKEND = Fields(
    {"group": GROUP, "kind": KIND, "namespace": LABEL, "name": NAME, "port": PORT, "weight": Whole(0, 1_000_000)},
    "name",
)
PARENT = Fields({"group": GROUP, "kind": KIND, "namespace": LABEL, "name": NAME, "sectionName": NAME}, "name")
RULE = Fields(
    {
        "backendRefs": Many(BACKEND, most=16),
        "matches": Many(
            Fields(
                {"path": Fields({"type": Text(choices="Exact PathPrefix RegularExpression"), "value": Text(most=1024)})}
            ),
            most=64,
        ),
        "timeouts": Fields({"request": DURATION, "backendRequest": DURATION}),
    }
)
SCRAPED = Fields(
    {
        "port": ANY,
        "path": ANY,
        "scheme": Text(choices="http https HTTP HTTPS"),
        "authorization": Fields({"type": ANY, "credentials": SECRET_KEY}),
    }
)

SPECS: dict[tuple[str, str], Shape] = {
    ("apps/v1", "Deployment"): Fields(
        {
            "replicas": COUNT,
            "selector": SELECTOR,
            "strategy": Fields({"type": Text(choices="RollingUpdate Recreate"), "rollingUpdate": ROLLING}),
            "progressDeadlineSeconds": COUNT,
            "template": TEMPLATE,
        },
        "selector template",
    ),
    ("apps/v1", "StatefulSet"): Fields(
        {
            "replicas": COUNT,
            "selector": SELECTOR,
            "serviceName": SERVICE,
            "podManagementPolicy": Text(choices="OrderedReady Parallel"),
            "template": TEMPLATE,
        },
        "selector template",
    ),
    ("v1", "Service"): Fields(
        {
            "selector": LABELS,
            "ports": Many(SERVICE_PORT, key="name"),
            "type": Text(choices="ClusterIP NodePort LoadBalancer ExternalName"),
            "clusterIP": ANY,
            "publishNotReadyAddresses": YES,
        }
    ),
    ("policy/v1", "PodDisruptionBudget"): Fields(
        {"maxUnavailable": SHARE, "minAvailable": SHARE, "selector": SELECTOR}
    ),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): Fields(
        {
            "replicas": COUNT,
            "startupPolicy": Text(choices="LeaderCreated LeaderReady"),
            "leaderWorkerTemplate": Fields(
                {
                    "size": Whole(1),
                    "restartPolicy": Text(choices="Default RecreateGroupOnPodRestart RecreateGroupAfterStart None"),
                    "leaderTemplate": TEMPLATE,
                    "workerTemplate": TEMPLATE,
                },
                "workerTemplate",
            ),
        },
        "leaderWorkerTemplate",
    ),
    ("inference.networking.k8s.io/v1", "InferencePool"): Fields(
        {
            "selector": Fields({"matchLabels": Table(LABELS.name, LABELS.value, 1)}, "matchLabels"),
            "targetPorts": Many(Fields({"number": PORT}, "number"), 1, 8, key="number"),
            "appProtocol": Text(choices="http kubernetes.io/h2c"),
            "endpointPickerRef": PICKER,
        },
        "selector targetPorts",
    ),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): Fields(
        {"parentRefs": Many(PARENT, most=32), "hostnames": Many(NAME, most=16), "rules": Many(RULE, 1, 16)}
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): Fields(
        {"endpoints": Many(SCRAPED), "selector": SELECTOR, "jobLabel": ANY}, "endpoints selector"
    ),
}
"""The shape of `spec`, by version and kind."""

NARROW = {"Deployment": LABEL, "Service": SERVICE, "StatefulSet": SERVICE, "LeaderWorkerSet": SERVICE}
"""Names of objects that become names of pods or in DNS."""

METADATA = Fields({"name": NAME, "namespace": LABEL, "labels": LABELS, "annotations": Table(KEY, ANY)}, "name")
CONFIG_MAP = Fields({"data": Table(Text(r"^[-._a-zA-Z0-9]+$", most=253), ANY)})
