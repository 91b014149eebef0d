"""Validates Kubernetes manifests: the shape of each object, and whether its references resolve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from poise.core.errors import UserError
from poise.plan.deploy.kinds import CONFIG_MAP, METADATA, NARROW, SPECS

Object = dict[str, Any]


def check(text: str) -> None:
    """Raise UserError, with all that is wrong in YAML documents, by document and field."""
    try:
        documents = list(YAML(typ="safe").load_all(text))
    except YAMLError as error:
        raise UserError(f"manifests are no YAML: {' '.join(str(error).split())}") from None
    check_objects(documents)


def check_objects(documents: Sequence[Any]) -> None:
    """The same of plain data."""
    found = list(faults(documents))
    if found:
        raise UserError("; ".join(found))


def faults(documents: Sequence[Any]) -> Iterator[str]:
    """The errors in objects: unknown or missing fields, types, bounds, and references that do not resolve."""
    sound = []
    for number, each in enumerate(documents, 1):
        found = list(_object(each, number))
        yield from found
        if not found:
            sound.append(each)
    yield from _twice(sound)
    for each in sound:
        yield from _selected(each)
        yield from _mounted(each)


def _object(each: Any, number: int) -> Iterator[str]:
    where = f"document {number}"
    if not isinstance(each, dict):
        yield f"{where}: is not a mapping"
        return
    known = (str(each.get("apiVersion")), str(each.get("kind")))
    where = f"{where} ({known[1]})"
    config = known == ("v1", "ConfigMap")
    if not config and known not in SPECS:
        yield f"{where}: {known[0]} {known[1]} is not a known kind"
        return
    content = "data" if config else "spec"
    yield from (
        f"{where}.{name}: is not a field" for name in each if name not in ("apiVersion", "kind", "metadata", content)
    )
    metadata = each.get("metadata")
    yield from METADATA.faults(metadata, f"{where}.metadata")
    if config:
        yield from CONFIG_MAP.faults({"data": each.get("data", {})}, where)
    elif "spec" not in each:
        yield f"{where}.spec: is missing"
    else:
        yield from SPECS[known].faults(each["spec"], f"{where}.spec")
    if known[1] in NARROW and isinstance(metadata, dict) and "name" in metadata:
        yield from NARROW[known[1]].faults(metadata["name"], f"{where}.metadata.name")


def _twice(documents: Sequence[Object]) -> Iterator[str]:
    seen: set[tuple[str, str, str]] = set()
    for each in documents:
        key = (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        if key in seen:
            yield f"{key[0]} {key[2]}: is there twice"
        seen.add(key)


def _selected(each: Object) -> Iterator[str]:
    """A workload must select its own pods: the API server refuses another one."""
    spec = each.get("spec", {})
    if "template" not in spec:
        return
    wanted = spec["selector"].get("matchLabels", {})
    if not wanted or not wanted.items() <= spec["template"].get("metadata", {}).get("labels", {}).items():
        yield f"{each['kind']} {each['metadata']['name']}: its selector does not match its own pods' labels"


def _mounted(each: Object) -> Iterator[str]:
    """Every mount is of a volume, and every probe of a port, that the pod has."""
    for pod in pods(each):
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            name = f"{each['kind']} {each['metadata']['name']}, container {container['name']}"
            for mount in container.get("volumeMounts", ()):
                if mount["name"] not in volumes:
                    yield f"{name}: mounts {mount['name']!r}, and the pod has no such volume"
            ports = {port.get("name") for port in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if isinstance(port, str) and port not in ports:
                    yield f"{name}: {probe} asks port {port!r}, and the container has no such port"


def pods(each: Object) -> list[Object]:
    """The specs of the pods that an object makes: one of a workload, the leader's and the workers' of a group."""
    spec = each.get("spec", {})
    group = spec.get("leaderWorkerTemplate", {})
    templates = [spec.get("template"), group.get("leaderTemplate"), group.get("workerTemplate")]
    return [template["spec"] for template in templates if template]
