"""Spellings of options that Typer does not know: earlier names, still accepted, and values that may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand


def renamed(**spellings: str) -> type[TyperCommand]:
    """A command class that reads each earlier option (keyword) as today's (value); both without dashes."""
    today = {f"--{old}": f"--{new}" for old, new in spellings.items()}

    def reread(words: list[str]) -> list[str]:
        parts = [word.partition("=") for word in words]
        return ["".join([today.get(name, name), *rest]) for name, *rest in parts]

    return _rereading(reread)


def optional(option: str, value: str) -> type[TyperCommand]:
    """A command class that reads an option without a value, at the end or before another option, as given `value`."""
    name = f"--{option}"

    def reread(words: list[str]) -> list[str]:
        ends = [after.startswith("-") and after != "-" for after in words[1:]] + [True]
        return [f"{name}={value}" if word == name and end else word for word, end in zip(words, ends, strict=False)]

    return _rereading(reread)


def _rereading(reread: Callable[[list[str]], list[str]]) -> type[TyperCommand]:
    """A command class that changes its words before `--` in some way."""

    class Rereading(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
            return super().parse_args(ctx, reread(args[:end]) + args[end:])

    return Rereading
