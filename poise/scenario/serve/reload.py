"""Reloads the gateway file while the gateway serves: applies what can change at once, and names all else.

Engines, limits, tenants, keys and the policies of `slot.EXCHANGEABLE` change at once, and no open request is lost
or moved for it. Every other changed field is named in one warning, because it needs a restart. A file
with an error changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from poise.core.errors import UserError
from poise.core.slot import EXCHANGEABLE
from poise.live.gateway.gateway import Gateway
from poise.scenario.place import Path
from poise.scenario.section import Section
from poise.scenario.serve.build import Plan
from poise.scenario.serve.roll import Roll

log = logging.getLogger("poise.gateway")

SECTIONS: Final = ("engines", "limits", "tenants")
"""Sections of the gateway file that apply at once, with all of their fields."""


class Reload:
    """Reloads the gateway file, and applies it to the gateway.

    plan: the current one.  reread: makes the plan of the file as it is now, given the current one.
    """

    def __init__(self, plan: Plan, gateway: Gateway, roll: Roll, reread: Callable[[Plan], Plan]) -> None:
        self.plan = plan
        self._gateway = gateway
        self._roll = roll
        self._reread = reread

    @property
    def drain_s(self) -> float:
        """Seconds that running answers get when the gateway stops."""
        return self.plan.file.limits.drain_s

    def now(self) -> None:
        """Apply the file as it is now."""
        try:
            fresh = self._reread(self.plan)
        except UserError as error:
            log.error("the gateway file is not taken, and nothing changes: %s", error)
            return
        changed = list(differences(self.plan.file, fresh.file))
        if not fresh.tenants_as(self.plan) and ("tenants",) not in [each[:1] for each in changed]:
            changed.append(("tenants", "file"))
        acting = [path for path in changed if self._acts(path)]
        acting = self._follow(fresh, acting)
        self._warn(fresh, [path for path in changed if path not in acting])
        text = ", ".join(map(_dotted, acting)) or "nothing"
        log.info("the gateway file was read again; it names %d engines; changed: %s", len(fresh.engines), text)

    def _acts(self, path: Path) -> bool:
        """Whether a field applies while the gateway serves; behind a proxy policies, and tenants' limits, stay."""
        if self.plan.file.envoy is not None and path[0] in ("policies", "tenants"):
            return False
        return path[0] in SECTIONS or (path[0] == "policies" and path[1] in EXCHANGEABLE)

    def _follow(self, fresh: Plan, acting: list[Path]) -> list[Path]:
        """Apply these fields; returns those that were applied."""
        plan, gateway = self.plan, self._gateway
        settings = replace(fresh.settings, pools=plan.settings.pools, prefix_tokens=plan.settings.prefix_tokens)
        others = any(path[0] == "tenants" for path in acting)
        tenants, section = (fresh.tenants, fresh.file.tenants) if others else (plan.tenants, plan.file.tenants)
        gateway.change(settings, tenants, (section.header or "").lower().encode())
        free = EXCHANGEABLE if plan.file.envoy is None else ()
        named = {slot: fresh.policies[slot] for slot in free if fresh.policies[slot] != gateway.named[slot]}
        if named and not gateway.exchange(named):
            log.error("the policies stay as they were, for a new one failed: %s", gateway.world.policy_error)
            acting = [path for path in acting if path[0] != "policies"]
        self._roll.list(fresh.engines)
        current = plan.file
        for path in acting:
            current = _with(current, path, fresh.file)
        self.plan = replace(
            plan, file=current, loaded=replace(fresh.loaded, gateway=current), settings=settings, tenants=tenants,
            engines=fresh.engines, policies=dict(gateway.named),
        )  # fmt: skip
        return acting

    def _warn(self, fresh: Plan, fields: list[Path]) -> None:
        self._gateway.pending = [_dotted(path) for path in fields]
        for path in fields:
            log.warning("%s", fresh.loaded.places.error(path, "needs a restart; until then what was in force stays"))


def differences(before: Section, after: Section, path: Path = ()) -> Iterator[Path]:
    """The fields in which two files differ; lists and policies count as one."""
    for name in type(before).model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, Section) and isinstance(new, Section):
            yield from differences(old, new, (*path, name))
        elif old != new:
            yield (*path, name)


def _with(section: Any, path: Path, source: Any) -> Any:
    """A section with one field as another has it."""
    name, rest = str(path[0]), path[1:]
    given = getattr(source, name)
    return section.model_copy(update={name: _with(getattr(section, name), rest, given) if rest else given})


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
