"""Passes the key file's tenants to the policies: their weights to the order, their limits to an admission.

Both are written into the policies' own parameters, as if the gateway file had them, so that a recording names them too.
A parameter that the gateway file itself sets has priority.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from poise.core.errors import UserError
from poise.live.requests.tenants import Tenant, Tenants
from poise.policies.find import find
from poise.scenario.policy_spec import ALL, Choice, admissions, choice, members
from poise.scenario.serve.load import LoadedGateway

LIMITS = ("concurrency", "requests_per_minute", "tokens_per_minute")
NAME = "tenant_limits"


def with_tenants(loaded: LoadedGateway, tenants: Tenants | None) -> LoadedGateway:
    """The gateway file with the weights and limits of its tenants; itself where they have none."""
    if tenants is None:
        return loaded
    policies = loaded.gateway.policies
    changed = {"order": _weighted(policies.order, tenants), "admission": _limited(policies.admission, tenants)}
    gateway = loaded.gateway.model_copy(update={"policies": policies.model_copy(update=changed)})
    return replace(loaded, gateway=gateway)


def _weighted(value: Any, tenants: Tenants) -> Any:
    """The order with the tenants' weights, where it has such a parameter and the file does not set it."""
    weights = {str(tenant.id): tenant.weight for tenant in tenants.all if tenant.weight != 1.0}
    if not weights or value is None or isinstance(value, list):
        return value
    name, parameters = choice(value)
    if "weights" in parameters or not _takes(name, "weights"):
        return value
    return {name: {**parameters, "weights": weights}}


def _takes(name: str, parameter: str) -> bool:
    try:
        return parameter in inspect.signature(find("order", name)).parameters
    except UserError:
        return False  # there is no such order, which the error names where it is built


def _limited(value: Any, tenants: Tenants) -> Any:
    """The admissions with the tenants' limits before all others, where some tenant has any."""
    limits = {str(tenant.id): _limits(tenant) for tenant in tenants.all if _limits(tenant)}
    if not limits or isinstance(value, list):
        return value
    chosen = [] if value is None else members(admissions(value))
    own: Choice = next((each for each in chosen if each[0] == NAME), (NAME, {}))
    rest = [each for each in chosen if each[0] != NAME]
    merged = {**own[1], "tenants": limits | (own[1].get("tenants") or {})}
    return {ALL: [{name: parameters} for name, parameters in ((NAME, merged), *rest)]}


def _limits(tenant: Tenant) -> dict[str, int]:
    return {name: limit for name in LIMITS if (limit := getattr(tenant, name))}
