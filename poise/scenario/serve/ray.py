"""The Ray Serve router whose policies are named, as `request_router_class="poise.scenario.serve.ray:PoiseRouter"`."""

from __future__ import annotations

from typing import Any

from poise.core.control import Control
from poise.core.errors import UserError
from poise.core.spec import ReplicaSpec
from poise.live.fronts.choice import Fallback
from poise.live.fronts.ray import ControlRouter
from poise.policies.find import build
from poise.scenario.choice import choice


class PoiseRouter(ControlRouter):
    """Decides by policies that `request_router_kwargs` name, each a name or `{name: {parameter: value}}`."""

    def initialize_state(
        self,
        router: Any = "prefix_cache",
        order: Any = None,
        admission: Any = (),
        fallbacks: int = 1,
        slots: int = 64,
        seed: int = 0,
    ) -> None:
        """fallbacks: replicas to try after the chosen one.  slots: replicas there may be at once."""
        listed = admission if isinstance(admission, list | tuple) else [admission]
        self.begin(
            Control(
                Fallback(_built("router", router), fallbacks),
                [ReplicaSpec(up=False)] * slots,
                order=None if order is None else _built("order", order),
                admission=[_built("admission", each) for each in listed],
                seed=seed,
                tries=1 + fallbacks,
                resume=False,
            )
        )


def _built(slot: str, given: Any) -> Any:
    try:
        name, parameters = choice(given)
    except ValueError as error:
        raise UserError(f"request_router_kwargs: {slot}: {error}") from None
    return build(slot, name, parameters)
