"""Refuses a policy in a slot that is not used, so that it is not taken for one that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.slot import SCENARIO, World, elsewhere

if TYPE_CHECKING:
    from poise.scenario.place import Places
    from poise.scenario.schema import PoliciesSection


def check_acts(policies: PoliciesSection, world: World, places: Places) -> None:
    """UserError for the first policy whose slot is not used; a slot that is left out, or null, is fine."""
    for name in SCENARIO:
        if name in policies.model_fields_set and getattr(policies, name) is not None:
            why = elsewhere(name, world)
            if why:
                raise places.error(("policies", name), why)
