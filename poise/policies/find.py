"""Find a policy by the name of its file, by `package.module:Class`, or by an entry point `poise.policies`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from poise.core.errors import PolicyError, ScenarioError, UserError
from poise.core.plugin import Plugins
from poise.core.slot import SLOTS, Slot, check_names


def names(slot: str) -> list[str]:
    """The names that a slot of `Policies` takes: built in, or registered by other packages; UserError for no slot."""
    if slot not in SLOTS:
        near = get_close_matches(slot, SLOTS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SLOTS)}"
        raise UserError(f"{slot!r} is not a slot of policies; {hint}")
    return sorted({*_files(slot).names(), *_registered(SLOTS[slot])})


def find(slot: str, name: str) -> type:
    """The class of the policy `name` for `slot`; ScenarioError with the nearest names if there is none."""
    files = _files(slot)
    if ":" in name:
        kind = files.outside(name)
        if not _fills(kind, SLOTS[slot]):
            raise ScenarioError(f"{files.where}{name} has no method {SLOTS[slot].verb!r}, which a {slot} must have")
        return kind  # type: ignore[no-any-return]
    if name in files.names():
        return next(kind for kind in files.members(name).values() if _fills(kind, SLOTS[slot]))  # type: ignore[no-any-return]
    registered = _registered(SLOTS[slot])
    if name in registered:
        return registered[name]
    raise files.unknown(name, names(slot))


def _files(slot: str) -> Plugins:
    """The policies of a slot that are a file each."""
    return Plugins(
        f"poise.policies.{SLOTS[slot].verb}", slot, "package.module:Class", f"policies.{slot}: ", ScenarioError
    )


def build(slot: str, name: str, parameters: dict[str, Any] | None = None) -> Any:
    """The policy `name` with its parameters, which are checked against the class itself."""
    kind = find(slot, name)
    _check_names(slot, name, kind)
    given = {parameter: _numbered(value) for parameter, value in (parameters or {}).items()}
    _files(slot).check(f"policies.{slot}.{name}", kind, given)
    try:
        made = kind(**given)
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"policies.{slot}.{name}: {error}") from None
    known = inspect.signature(kind).parameters
    for parameter, value in given.items() if kind.__module__.startswith("poise.policies.") else ():
        if _counts(parameter, known[parameter].default) and value < 0:  # after the class's own checks
            raise ScenarioError(f"policies.{slot}.{name}.{parameter}: {value!r} is below 0; give 0 or more")
    return made


def build_named(slot: str, spec: Any) -> Any:
    """The policy of a slot from a value in a file, recording or program.

        NAME or `{NAME: {parameter: value}}` is that policy, a list of such is all of them, None is none, and any
        other
    object is returned unchanged. ScenarioError for what cannot be found or built.
    """
    if isinstance(spec, list | tuple):
        return tuple(build_named(slot, each) for each in spec)
    if isinstance(spec, str):
        return build(slot, spec)
    if not isinstance(spec, Mapping):
        return spec
    if len(spec) != 1:
        raise ScenarioError(f"policies.{slot}: {spec!r} names no policy; give NAME or {{NAME: {{parameter: value}}}}")
    ((name, parameters),) = spec.items()
    return build(slot, name, parameters)


def make_named(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The policies of several slots, as recordings name them."""
    return {slot: build_named(slot, each) for slot, each in spec.items()}


def _check_names(slot: str, name: str, kind: type) -> None:
    """Raise ScenarioError for a class with a method whose name is a near miss of a hook of its slot."""
    try:
        check_names(slot, kind)
    except PolicyError as error:
        raise ScenarioError(f"policies.{slot}: {name}: {error}") from None


def _numbered(value: Any) -> Any:
    """A mapping by number (of a tenant, say) with its keys, which files store as text, turned back to numbers."""
    if not isinstance(value, dict) or not all(isinstance(key, str) and key.isdecimal() for key in value):
        return value
    return {int(key): each for key, each in value.items()}


def _counts(parameter: str, default: Any) -> bool:
    """Whether a parameter is a count, seconds or tokens, which must not be negative, judged by name and default."""
    if isinstance(default, bool) or not isinstance(default, int | float) or default < 0 or parameter == "seed":
        return False
    return isinstance(default, int) or parameter.endswith(("_s", "_tokens"))


def _fills(kind: Any, slot: Slot) -> bool:
    return inspect.isclass(kind) and slot.fills(kind) and not getattr(kind, "_is_protocol", False)


def _registered(slot: Slot) -> dict[str, type]:
    """Policies of other packages, by entry-point name; those whose class could fill the slot."""
    from importlib.metadata import entry_points  # 20 ms that a built-in name need not pay

    found: dict[str, type] = {}
    for entry in entry_points(group="poise.policies"):
        kind = entry.load()
        if _fills(kind, slot):
            found[entry.name] = kind
    return found
