"""What the custom resource definitions of other projects say of the fields that the manifests fill, as JSON Schema.

Fields, types, bounds and what is required are those of the definitions named with each kind; a field that is not here
is not allowed here, so that whoever emits one more looks it up first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def an_object(required: str = "", **properties: Schema) -> Schema:
    return {"type": "object", "required": required.split(), "properties": properties}


def a_list(items: Schema, least: int = 0, most: int = 1000) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def a_text(most: int = 1000, least: int = 0, pattern: str = "", enum: str = "") -> Schema:
    return {"type": "string", "maxLength": most, "minLength": least, "pattern": pattern, "enum": enum.split()}


TEXT = a_text()
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
NAME = a_text(253, 1)
GROUP = a_text(253, 0, r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
KIND = a_text(63, 1, r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$")
SPACE = a_text(63, 1, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
DURATION = a_text(100, 1, r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")
LABELS = {"type": "object", "values": a_text(63, 0, r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")}
PICKER = an_object(
    "name", group=GROUP, kind=KIND, name=NAME, port=an_object("number", number=PORT),
    failureMode=a_text(enum="FailOpen FailClose"),
)  # fmt: skip
PARENT = an_object("name", group=GROUP, kind=KIND, namespace=SPACE, name=NAME, sectionName=NAME)
BACKEND = an_object(
    "name", group=GROUP, kind=KIND, namespace=SPACE, name=NAME, port=PORT,
    weight={"type": "integer", "minimum": 0, "maximum": 1_000_000},
)  # fmt: skip
MATCH = an_object(path=an_object(type=a_text(enum="Exact PathPrefix RegularExpression"), value=a_text(1024)))
RULE = an_object(
    backendRefs=a_list(BACKEND, 0, 16),
    matches=a_list(MATCH, 0, 64),
    timeouts=an_object(request=DURATION, backendRequest=DURATION),
)
SECRET_KEY = an_object("key", name=TEXT, key=TEXT, optional={"type": "boolean"})
SCRAPED = an_object(
    port=TEXT, path=TEXT, scheme=a_text(enum="http https"),
    authorization=an_object(type=TEXT, credentials=SECRET_KEY),
)  # fmt: skip

SPECS: dict[tuple[str, str], Schema] = {
    # gateway-api-inference-extension v1.0.0, inference.networking.k8s.io_inferencepools.yaml
    ("inference.networking.k8s.io/v1", "InferencePool"): an_object(
        "selector targetPorts endpointPickerRef",
        selector=an_object("matchLabels", matchLabels=LABELS),
        targetPorts=a_list(an_object("number", number=PORT), 1, 1),
        endpointPickerRef=PICKER,
    ),
    # gateway-api v1.3.0, standard channel, gateway.networking.k8s.io_httproutes.yaml
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): an_object(
        parentRefs=a_list(PARENT, 0, 32), hostnames=a_list(NAME, 0, 16), rules=a_list(RULE, 1, 16)
    ),
    # prometheus-operator v0.84.1, monitoring.coreos.com_servicemonitors.yaml
    ("monitoring.coreos.com/v1", "ServiceMonitor"): an_object(
        "endpoints selector", endpoints=a_list(SCRAPED), selector=an_object(matchLabels=LABELS), jobLabel=TEXT
    ),
}
"""The schema of `spec`, by version and kind."""

KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def faults(value: Any, schema: Schema, where: str = "spec") -> Iterator[str]:
    """What of a value its schema does not allow."""
    kind = schema["type"]
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{where}: {value!r} is no {kind}"
    elif kind == "object":
        fields = schema.get("properties")
        yield from (f"{where}.{name}: is missing" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            if fields is not None and name not in fields:
                yield f"{where}.{name}: is no field"
            else:
                yield from faults(each, schema["values"] if fields is None else fields[name], f"{where}.{name}")
    elif kind == "array":
        if not schema["minItems"] <= len(value) <= schema["maxItems"]:
            yield f"{where}: has {len(value)} items"
        for place, each in enumerate(value):
            yield from faults(each, schema["items"], f"{where}.{place}")
    elif kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
        yield f"{where}: {value} is out of bounds"
    elif kind == "string":
        if not schema["minLength"] <= len(value) <= schema["maxLength"]:
            yield f"{where}: has {len(value)} letters"
        if not re.search(schema["pattern"], value) or value not in (schema["enum"] or [value]):
            yield f"{where}: {value!r} is not allowed"
