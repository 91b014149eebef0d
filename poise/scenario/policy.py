"""The policies of a scenario, found by name and built with their parameters."""

from __future__ import annotations

import inspect
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from poise.core.errors import PolicyError, UserError
from poise.core.plugin import reach
from poise.core.slot import SCENARIO
from poise.policies import Policies
from poise.policies.find import build, find
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.scenario.load import Loaded
from poise.scenario.place import Path as DataPath
from poise.scenario.place import Places
from poise.scenario.policy_spec import ALL, Choice, chosen_in, labels, members
from poise.scenario.schema import PoliciesSection


class PolicyPage(NamedTuple):
    """The policies section of a file. places: the lines of its values.  folder: that of the file."""

    policies: PoliciesSection
    places: Places
    folder: Path


def build_policies(loaded: Loaded) -> list[tuple[str, Policies]]:
    """The bundles of the scenario: every choice of one policy from each slot's list, with distinct labels.

    A label names the policies of the slots that have several, else the router.
    """
    sheet = PolicyPage(loaded.scenario.policies, loaded.places, loaded.folder)
    offered = [offers(sheet, slot) for slot in SCENARIO]
    several = [len(options) > 1 for options in offered] if any(len(each) > 1 for each in offered) else [True]
    bundles = []
    for picked in product(*offered):
        label = " + ".join(name for (name, _), named in zip(picked, several, strict=False) if named)
        filled = {slot: policy for slot, (_, policy) in zip(SCENARIO, picked, strict=True)}
        if loaded.scenario.engine.preemption == "swap":
            filled["preempt"] = LastAdmitted(swap=True)
        try:
            bundles.append((label, Policies(**filled)))
        except PolicyError as error:  # each is valid by itself, but not with the others
            raise sheet.places.error(("policies",), str(error)) from None
    return bundles


def offers(sheet: PolicyPage, slot: str) -> list[tuple[str, Any]]:
    """The policies of a slot with their labels; None is the slot's default."""
    value = getattr(sheet.policies, slot)
    path: DataPath = ("policies", slot)
    chosen = chosen_in(slot, value)
    return [
        (label, each and _filled(sheet, slot, each, (*path, at) if isinstance(value, list) else path))
        for at, (label, each) in enumerate(zip(labels(chosen), chosen, strict=True))
    ]


def _filled(sheet: PolicyPage, slot: str, chosen: Choice, path: DataPath) -> Any:
    """What a slot holds: a policy, or for admissions all of them that make one choice."""
    if slot != "admission":
        return _built(sheet, slot, chosen, path)
    if chosen[0] != ALL:
        return (_built(sheet, slot, chosen, path),)
    return tuple(_built(sheet, slot, each, (*path, ALL, at)) for at, each in enumerate(members(chosen)))


def _built(sheet: PolicyPage, slot: str, chosen: Choice, path: DataPath) -> Any:
    """One policy; its errors point into the file."""
    name, parameters = chosen
    if ":" in name:
        reach(sheet.folder, Path.cwd())
    try:
        return build(slot, name, parameters)
    except UserError as error:
        raise _located(sheet, slot, name, path, str(error)) from None
    except Exception as error:  # whatever a user's own module or class raises
        if ":" not in name:
            raise
        text = f"{name} cannot be built ({type(error).__name__}: {error}); correct it"
        raise sheet.places.error(path, " ".join(text.split())) from None


def _located(sheet: PolicyPage, slot: str, name: str, path: DataPath, text: str) -> UserError:
    """An error that begins with `policies.SLOT[.NAME[.PARAMETER]]`, with its place in the file."""
    rest = text.removeprefix(f"policies.{slot}")
    if rest.startswith(f".{name}"):
        path, rest = (*path, name), rest.removeprefix(f".{name}")
    parameter, _, message = rest.partition(": ")
    if parameter:
        path = (*path, parameter.removeprefix("."))
    return sheet.places.error(path, message if "; " in message else f"{message}; correct it or name another")


def resolved_choice(slot: str, chosen: Choice) -> str | dict[str, Any]:
    """A choice with the defaults of its parameters written out, where they are plain values."""
    name, given = chosen
    if slot == "admission" and name == ALL:
        return {ALL: [resolved_choice(slot, each) for each in members(chosen)]}
    signature = inspect.signature(find(slot, name))
    fields = {
        key: given.get(key, parameter.default)
        for key, parameter in signature.parameters.items()
        if key in given or isinstance(parameter.default, bool | int | float | str)
    }
    return {name: fields} if fields else name
