"""The start-up of a plan's replica, for scalers: stages in seconds, weights by their bytes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from poise.core.errors import UserError
from poise.core.spec import Pool, Startup
from poise.cost.memory import footprint


@dataclass(frozen=True, slots=True)
class Start:
    """The stages of `Startup`, but for weights the GB/s at which a replica gets them.

    The defaults are ours: devices that a cluster has at hand, an image in a near registry, weights from network
    storage, CUDA graphs captured. Where machines must be ordered from a cloud first, give a longer provision_s.
    """

    provision_s: float = 60.0
    image_s: float = 20.0
    engine_s: float = 15.0
    weights_gb_s: float = 2.0
    capture_s: float = 25.0
    sigma: float = 0.0

    def of(self, pool: Pool) -> Startup:
        """The start-up of one replica."""
        weights_s = footprint(pool).weights * pool.devices / (self.weights_gb_s * 1e9)
        return Startup(self.provision_s, self.image_s, self.engine_s, weights_s, self.capture_s, sigma=self.sigma)


def read_start(text: str | None) -> Start:
    """Parse `--start`, as in `provision_s=300,weights_gb_s=5`; UserError names a part."""
    known = [each.name for each in fields(Start)]
    given: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in (text or "").split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise UserError(f"--start {part}: there is no {name!r}; give {', '.join(known)}, as in provision_s=300")
        try:
            given[name] = float(value)
        except ValueError:
            raise UserError(f"--start {part}: {value!r} is not a number; give one, as in {name}=30") from None
        if not isfinite(given[name]) or given[name] < 0 or (name == "weights_gb_s" and not given[name]):
            raise UserError(f"--start {part}: {name} must be 0 or more, and weights_gb_s above it")
    return Start(**given)
