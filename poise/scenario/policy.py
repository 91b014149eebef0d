"""The policies of a scenario, found by name and built with their parameters."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.policies import Policies
from poise.policies.find import COMMON, build, find
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.scenario.choice import Choice, choice, choices, labels
from poise.scenario.load import Loaded
from poise.scenario.place import Path as DataPath


def build_policies(loaded: Loaded) -> list[tuple[str, Policies]]:
    """One bundle for each router of the scenario, with a distinct label; the other slots are common to all."""
    section = loaded.scenario.policies
    chosen = choices(section.router)
    many = isinstance(section.router, list)
    rest = {
        slot: _built(loaded, slot, choice(value), ("policies", slot))
        for slot in COMMON
        if (value := getattr(section, slot)) is not None
    }
    if loaded.scenario.engine.preemption == "swap":
        rest["preempt"] = LastAdmitted(swap=True)
    bundles = []
    for at, (label, each) in enumerate(zip(labels(chosen), chosen, strict=True)):
        path: DataPath = ("policies", "router", at) if many else ("policies", "router")
        bundles.append((label, Policies(router=_built(loaded, "router", each, path), **rest)))
    return bundles


def _built(loaded: Loaded, slot: str, chosen: Choice, path: DataPath) -> Any:
    """One policy; its errors point into the file."""
    name, parameters = chosen
    if ":" in name:
        _reach(loaded.folder, Path.cwd())
    try:
        return build(slot, name, parameters)
    except UserError as error:
        raise _located(loaded, slot, name, path, str(error)) from None
    except Exception as error:  # whatever a user's own module or class raises
        if ":" not in name:
            raise
        said = f"{name} cannot be built ({type(error).__name__}: {error}); correct it"
        raise loaded.places.error(path, " ".join(said.split())) from None


def _reach(*folders: Path) -> None:
    """Let `package.module:Class` name modules beside the scenario and in the working folder."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)


def _located(loaded: Loaded, slot: str, name: str, path: DataPath, said: str) -> UserError:
    """An error that begins with `policies.SLOT[.NAME[.PARAMETER]]`, with its place in the file."""
    rest = said.removeprefix(f"policies.{slot}")
    if rest.startswith(f".{name}"):
        path, rest = (*path, name), rest.removeprefix(f".{name}")
    parameter, _, message = rest.partition(": ")
    if parameter:
        path = (*path, parameter.removeprefix("."))
    return loaded.places.error(path, message if "; " in message else f"{message}; correct it or name another")


def resolved_choice(slot: str, chosen: Choice) -> str | dict[str, Any]:
    """A choice with the defaults of its parameters written out, where they are plain values."""
    name, given = chosen
    signature = inspect.signature(find(slot, name))
    told = {
        key: given.get(key, parameter.default)
        for key, parameter in signature.parameters.items()
        if key in given or isinstance(parameter.default, bool | int | float | str)
    }
    return {name: told} if told else name
