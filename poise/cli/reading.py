"""A command's signature from the dataclass of its options, which holds each of them once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def reads(options: Callable[..., T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Have a function of `options` take them one by one, as Typer asks for them.

    options: a dataclass whose fields are `Annotated` with Typer's options and arguments, in the order of the help. An
    option that is not given has the field's default.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name], default=_default(each)
        )
        for each in fields(options)  # type: ignore[arg-type]
    ]

    def read(command: Callable[[T], None]) -> Callable[..., None]:
        def typed(**given: Any) -> None:
            command(options(**{name: value for name, value in given.items() if value is not None}))

        typed.__name__, typed.__doc__, typed.__module__ = command.__name__, command.__doc__, command.__module__
        typed.__annotations__ = {each.name: each.annotation for each in parameters}
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return typed

    return read


def _default(field: Any) -> Any:
    """What Typer takes for not given: None stands for a default that has to be made anew each time."""
    if field.default_factory is not MISSING:
        return None
    return inspect.Parameter.empty if field.default is MISSING else field.default
