"""The command that caps the power of devices, by maker; it needs root and lasts until the next boot."""

from __future__ import annotations

from collections.abc import Iterable

from poise.core.spec import Pool
from poise.plan.fleet import Fleet

LABEL = "poise/power-cap-w"
"""The annotation of pods whose devices are capped."""


def cap_command(pool: Pool, devices: Iterable[int] = ()) -> list[str]:
    """The command that caps these devices of a host, or all of it, with nvidia-smi or amd-smi."""
    chosen, watts = [str(each) for each in devices], f"{pool.power_w:g}"
    if pool.device.vendor == "AMD":
        return ["amd-smi", "set", "--gpu", *(chosen or ["all"]), "--power-cap", watts]
    return ["nvidia-smi", *(["--id=" + ",".join(chosen)] if chosen else []), f"--power-limit={watts}"]


def cap_comments(fleet: Fleet) -> list[str]:
    """The manual steps on the nodes, where pods cannot do it."""
    capped = {(pool.device.name, tuple(cap_command(pool))) for pool in fleet.pools if pool.slowed}
    return [f"Cap the nodes of {name} first, as root: {' '.join(words)}" for name, words in sorted(capped)]
