"""Shell completion: `poise completion SHELL` prints a script; the shell then asks `poise` itself at each tab."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from poise.core.errors import UserError

VARIABLE = "_POISE_COMPLETE"
"""The variable by which a shell asks for completions."""

SHELLS = ("bash", "zsh", "fish", "powershell")


def script(shell: str) -> str:
    """What a shell must read to complete `poise`; UserError for a shell that is not known."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise UserError(f"poise completion {shell}: is no shell that it knows; give one of {', '.join(SHELLS)}")
    return str(get_completion_script(prog_name="poise", complete_var=VARIABLE, shell=shell))


def complete(command: Any) -> None:
    """Make a command, and those below it, ready to answer a shell: with names of routers, models and devices."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    _name_values(command)


def _name_values(command: Any) -> None:
    for below in getattr(command, "commands", {}).values():
        _name_values(below)
    for param in command.params:
        if (values := VALUES.get(param.name)) is not None:
            param._custom_shell_complete = _matching(values)


def _matching(values: Callable[[], Iterable[str]]) -> Callable[[Any, Any, str], list[str]]:
    """Values that begin as the last part of a list with commas does."""

    def matching(context: Any, param: Any, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{value}" for value in values() if value.startswith(last)]

    return matching


def _routers() -> Iterable[str]:
    from poise.policies import find

    return find.names("router")


def _models() -> Iterable[str]:
    from poise.catalogue import models

    names = [each.name for each in models()]
    return [*names, *(name.rpartition("/")[2].lower() for name in names)]


def _devices() -> Iterable[str]:
    from poise.catalogue import devices

    return [each.name for each in devices()]


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "router": _routers,
    "routers": _routers,
    "policies": _routers,
    "model": _models,
    "device": _devices,
    "devices": _devices,
}
"""What completes the value of an option, by its name in Python."""
