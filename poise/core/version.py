"""The version of Poise that is installed."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """As the package's metadata states it, read when it is first asked for: that takes 20 ms."""
    from importlib import metadata

    return metadata.version("poise")
