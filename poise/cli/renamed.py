"""Earlier spellings of options: still accepted, no longer shown."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


def renamed(**spellings: str) -> type[TyperCommand]:
    """A command class that reads each earlier option (keyword) as today's (value); both without dashes."""
    today = {f"--{old}": f"--{new}" for old, new in spellings.items()}

    class Renamed(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
            words = [word.partition("=") for word in args[:end]]
            return super().parse_args(
                ctx, ["".join([today.get(name, name), *rest]) for name, *rest in words] + args[end:]
            )

    return Renamed
