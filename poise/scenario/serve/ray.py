"""The Ray Serve router whose policies are named, as `request_router_class="poise.scenario.serve.ray:PoiseRouter"`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.core.control.control import Control
from poise.core.errors import PolicyError, ScenarioError, UserError
from poise.core.spec import ReplicaSpec
from poise.live.integrations.choice import Fallback
from poise.live.integrations.ray import ControlRouter
from poise.policies import Policies


class PoiseRouter(ControlRouter):
    """Decides by the policies in `request_router_kwargs`, each a name or `{name: {parameter: value}}`."""

    def initialize_state(
        self,
        router: Any = "prefix_cache",
        order: Any = None,
        admission: Any = (),
        fallbacks: int = 1,
        slots: int = 64,
        seed: int = 0,
    ) -> None:
        """fallbacks: replicas to try after the chosen one.  slots: most replicas at once."""
        try:
            named = Policies(router=router, order=order, admission=admission)
        except (ScenarioError, PolicyError) as error:
            raise UserError(f"request_router_kwargs: {error}") from None
        policies = replace(named, router=Fallback(named.router, fallbacks))
        absent = [ReplicaSpec(up=False)] * slots
        self.begin(Control(policies, absent, seed=seed, tries=1 + fallbacks, resume=False))
