"""The installed version of Poise."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """As in the package's metadata, read on first use: that takes 20 ms."""
    from importlib import metadata

    return metadata.version("poise")
