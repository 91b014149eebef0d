"""Find a policy by the name of its file, by `package.module:Class`, or by an entry point `poise.policies`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any

from poise.core.errors import PolicyError, ScenarioError, UserError
from poise.core.slot import SLOTS, Slot, check_names


def names(slot: str) -> list[str]:
    """The names that a slot of `Policies` takes: built in, or registered by other packages; UserError for no slot."""
    if slot not in SLOTS:
        near = get_close_matches(slot, SLOTS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SLOTS)}"
        raise UserError(f"{slot!r} is not a slot of policies; {hint}")
    return sorted({*_built_in(slot), *_registered(SLOTS[slot])})


def find(slot: str, name: str) -> type:
    """The class of the policy `name` for `slot`; ScenarioError with the nearest names if there is none."""
    if ":" in name:
        return _outside(slot, name)
    if name in _built_in(slot):
        module = importlib.import_module(f"poise.policies.{SLOTS[slot].verb}.{name}")
        kinds = vars(module).values()
        own = [kind for kind in kinds if _fills(kind, SLOTS[slot]) and kind.__module__ == module.__name__]
        found: type = own[0]
        return found
    registered = _registered(SLOTS[slot])
    if name in registered:
        return registered[name]
    near = get_close_matches(name, names(slot), 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names(slot))}"
    raise ScenarioError(f"policies.{slot}: {name!r} is no {slot}; {hint} (or give package.module:Class)")


def build(slot: str, name: str, parameters: dict[str, Any] | None = None) -> Any:
    """The policy `name` with its parameters, which are checked against the class itself."""
    kind = find(slot, name)
    _check_names(slot, name, kind)
    given = {parameter: _numbered(value) for parameter, value in (parameters or {}).items()}
    known = inspect.signature(kind).parameters
    for parameter, value in given.items():
        if parameter not in known:
            near = get_close_matches(parameter, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise ScenarioError(f"policies.{slot}.{name}: unknown parameter {parameter!r}; {hint}")
        _check_value(f"policies.{slot}.{name}.{parameter}", value, known[parameter])
    missing = [each.name for each in known.values() if each.default is each.empty and each.name not in given]
    if missing:
        raise ScenarioError(f"policies.{slot}.{name}: parameter {missing[0]!r} is missing; give it a value")
    try:
        made = kind(**given)
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"policies.{slot}.{name}: {error}") from None
    for parameter, value in given.items() if name in _built_in(slot) else ():  # after the class's own checks
        if _counts(parameter, known[parameter].default) and value < 0:
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


def _check_value(where: str, value: Any, parameter: inspect.Parameter) -> None:
    """Raise ScenarioError for a value of another kind than the parameter's."""
    default = parameter.default
    if default is not parameter.empty and default is not None and not _alike(value, default):
        raise ScenarioError(f"{where}: {value!r} is no {type(default).__name__}; give a value like {default!r}")
    if not _finite(value):
        raise ScenarioError(f"{where}: {value!r} is not finite; give a number")
    if default is None and "dict" in str(parameter.annotation) and not _maps(value):
        raise ScenarioError(f"{where}: {value!r} is no mapping by number; give one, as in {{0: 2}}")


def _numbered(value: Any) -> Any:
    """A mapping by number (of a tenant, say) with its keys, which files store as text, turned back to numbers."""
    if not isinstance(value, dict) or not all(isinstance(key, str) and key.isdecimal() for key in value):
        return value
    return {int(key): each for key, each in value.items()}


def _finite(value: Any) -> bool:
    """Whether all numbers of a value are finite, as instants and sums of them must be."""
    if isinstance(value, dict):
        value = list(value.values())
    return all(map(_finite, value)) if isinstance(value, list) else not isinstance(value, float) or isfinite(value)


def _counts(parameter: str, default: Any) -> bool:
    """Whether a parameter is a count, seconds or tokens, which must not be negative, judged by name and default."""
    if isinstance(default, bool) or not isinstance(default, int | float) or default < 0 or parameter == "seed":
        return False
    return isinstance(default, int) or parameter.endswith(("_s", "_tokens"))


def _maps(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(key, int) for key in value))


def _alike(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


def _built_in(slot: str) -> list[str]:
    package = importlib.import_module(f"poise.policies.{SLOTS[slot].verb}")
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


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


def _outside(slot: str, name: str) -> type:
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise ScenarioError(f"policies.{slot}: {name!r} names no class; write package.module:Class")
    try:
        kind = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as error:
        raise ScenarioError(
            f"policies.{slot}: cannot import {module_name!r} ({error}); put its folder on PYTHONPATH or install it"
        ) from None
    except AttributeError:
        raise ScenarioError(
            f"policies.{slot}: module {module_name} has no {class_name!r}; name a class in it"
        ) from None
    if not _fills(kind, SLOTS[slot]):
        method = SLOTS[slot].verb
        raise ScenarioError(f"policies.{slot}: {name} has no method {method!r}, which a {slot} must have")
    return kind  # type: ignore[no-any-return]
