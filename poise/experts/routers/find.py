"""Routers by name: that of the file."""

from __future__ import annotations

from typing import Any

from poise.core.errors import UserError
from poise.core.plugin import nearest
from poise.experts.routers.alf_lb import AlfLb
from poise.experts.routers.bip_balancing import BipBalancing
from poise.experts.routers.expert_choice import ExpertChoice
from poise.experts.routers.routing import ExpertRouter
from poise.experts.routers.selective_sinkhorn import SelectiveSinkhorn
from poise.experts.routers.top_k import TopK

ROUTERS: dict[str, type[Any]] = {
    "alf_lb": AlfLb, "bip_balancing": BipBalancing, "expert_choice": ExpertChoice,
    "selective_sinkhorn": SelectiveSinkhorn, "top_k": TopK,
}  # fmt: skip
"""Those that take scores of all experts."""


def router(name: str, **parameters: Any) -> ExpertRouter:
    """The router of this name with its parameters; UserError with the nearest names where there is none."""
    if name not in ROUTERS:
        raise UserError(f"{name!r} is no router of experts; {nearest(name, ROUTERS)}")
    known = list(ROUTERS[name].__dataclass_fields__)
    for each in parameters:
        if each not in known:
            raise UserError(f"{each!r} is no parameter of {name}; {nearest(each, known)}")
    found: ExpertRouter = ROUTERS[name](**parameters)
    return found
