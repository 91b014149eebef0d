"""Plug-ins: code found by the name of its file in a package or as `package.module:name`, its parameters checked."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from math import isfinite
from pathlib import Path
from typing import Any

from poise.core.errors import UserError


def reach(*folders: Path) -> None:
    """Add these folders to the path of the user's own modules, after all that is installed."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)


def nearest(name: str, known: Collection[str], otherwise: str = "known:", most: int = 3) -> str:
    """The cure for an unknown name: those most like it, or after `otherwise` all."""
    near = list(dict.fromkeys(get_close_matches(name, known, most, 0.5)))
    return f"did you mean {' or '.join(near)}?" if near else f"{otherwise} {', '.join(known) or 'none'}"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins of one kind: each file of `package`, and the user's own.

    what: one of them, as in `schedule`.  own: how the user's own is named, as in package.module:Class.  where: what
    errors begin with.  error: their class.
    """

    package: str
    what: str
    own: str
    where: str = ""
    error: type[UserError] = UserError

    def names(self) -> list[str]:
        """The names of the built-in ones."""
        return sorted(module.name for module in pkgutil.iter_modules(import_module(self.package).__path__))

    def members(self, name: str) -> dict[str, Any]:
        """What the file of a built-in one defines itself, by name."""
        module = import_module(f"{self.package}.{name}")
        return {key: each for key, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}

    def outside(self, name: str) -> Any:
        """What `package.module:name` names."""
        module, _, member = name.partition(":")
        kind = self.own.rpartition(":")[2].lower()
        if not module or not member:
            raise self.error(f"{self.where}{name!r} names no {kind}; write {self.own}")
        try:
            return getattr(import_module(module), member)
        except AttributeError as error:
            if module in sys.modules:
                text = f"module {module} has no {kind} {member!r}; name one that is in it"
                raise self.error(f"{self.where}{text}") from None
            raise self._broken(module, error) from None
        except Exception as error:  # whatever a user's own module raises
            raise self._broken(module, error) from None

    def _broken(self, module: str, error: Exception) -> UserError:
        text = f"cannot import {module!r} ({type(error).__name__}: {error})"
        return self.error(f"{self.where}{' '.join(text.split())}; correct it, or put its folder on PYTHONPATH")

    def unknown(self, name: str, known: Collection[str]) -> UserError:
        """The error for a name that is none of those known."""
        text = f"{name!r} is no {self.what}; {nearest(name, known)}"
        return self.error(f"{self.where}{text} (or give {self.own})" if self.own else f"{self.where}{text}")

    def check(self, where: str, kind: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """An error for parameters that `kind` does not have, needs and lacks, or whose values are of another sort."""
        known = signature(kind).parameters
        for name, value in given.items():
            if name not in known:
                cure = nearest(name, known, "it has", 1)
                raise self.error(f"{where}: unknown parameter {name!r}; {cure}")
            if fault := _fault(value, known[name]):
                raise self.error(f"{where}.{name}: {value!r} {fault}")
        for name, each in known.items():
            if each.default is each.empty and name not in given:
                raise self.error(f"{where}: parameter {name!r} is missing; give it a value")


def _fault(value: Any, parameter: Parameter) -> str:
    """What is wrong with a value, and the cure; nothing where it is of the sort of the parameter's default."""
    default, written = parameter.default, str(parameter.annotation)
    if default is None and value is not None:
        if "dict" in written:
            if not isinstance(value, dict) or not all(isinstance(key, int) for key in value):
                return "is no mapping by number; give one, as in {0: 2}"
        elif "float" in written and not _alike(value, 0.0):
            return "is no number; give one, or nothing"
    elif default is not None and default is not parameter.empty and not _alike(value, default):
        return f"is no {type(default).__name__}; give a value like {default!r}"
    return "" if _finite(value) else "is not finite; give a number"


def _alike(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, int | float if isinstance(default, float) else type(default))


def _finite(value: Any) -> bool:
    """Whether all numbers of a value are finite, as instants and sums of them must be."""
    if isinstance(value, dict):
        value = list(value.values())
    return all(map(_finite, value)) if isinstance(value, list) else not isinstance(value, float) or isfinite(value)
