"""The power of a row of servers under a knob that turns their clocks: telemetry, commands that take time, and a brake.

POLCA (arXiv 2308.12908), section 6: a row's budget is that of `rated` servers; `servers` of them draw from it. Power
above idle falls with the clock; a command takes effect `delay_s` after it was given; beyond the budget a brake slows
every device at once, which oversubscription must avoid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.errors import UserError
from poise.core.policy import Cap
from poise.core.power import Power


@dataclass(frozen=True, slots=True)
class Row:
    """servers: that there are.  rated: that the budget is for.  low: part of them with low priority.
    floor: power of an idle server over its rated power (half of a server is its devices, idle at a fifth; of the
    other half 0.6 is always drawn: ours).  prompts: part of the power above idle that goes into prompts, which last
    longer at a lower clock (ours).
    tick_s: between readings (2 s).  delay_s: of a command (up to 40 s).
    """

    servers: int
    rated: int = 40
    low: float = 0.5
    floor: float = 0.4
    prompts: float = 0.2
    tick_s: float = 2.0
    delay_s: float = 40.0
    power: Power = field(default_factory=Power)

    def __post_init__(self) -> None:
        if self.servers < 1 or self.rated < 1 or self.tick_s <= 0 or self.delay_s < 0:
            raise UserError(f"{self}: servers and tick_s are above 0 and delay_s not below; correct them")
        if not (0 <= self.low <= 1 and 0 <= self.floor <= 1 and 0 <= self.prompts <= 1):
            raise UserError(f"{self}: low, floor and prompts are parts of 1; correct them")

    def dynamic(self, clock: float) -> float:
        """Power above idle at a clock over that at the full one, for the same work: prompts last longer."""
        scale = float(clock**self.power.exponent)
        return scale * (self.prompts / clock + 1 - self.prompts)

    def play(self, load: Sequence[float], knob: Cap | None = None) -> Played:
        """Play a load: the power of a server over its rated power, uncapped, one value a tick, at least `floor`."""
        pending: list[tuple[float, tuple[float, float]]] = []
        clocks = commanded = (1.0, 1.0)
        powers: list[float] = []
        spent: dict[tuple[float, float], int] = {}
        brakes, commands, over = 0, 0, False
        for tick, each in enumerate(load):
            now = tick * self.tick_s
            while pending and pending[0][0] <= now:
                clocks = pending.pop(0)[1]
            power = self._power(each, clocks)
            powers.append(power)
            spent[clocks] = spent.get(clocks, 0) + 1
            brakes += power > 1 and not over
            over = power > 1
            wanted = commanded if knob is None else knob.cap(power, now)
            if wanted != commanded:
                commanded, commands = wanted, commands + 1
                pending.append((now + self.delay_s, commanded))
        return Played(powers, brakes, commands, {pair: ticks / max(len(powers), 1) for pair, ticks in spent.items()})

    def _power(self, load: float, clocks: tuple[float, float]) -> float:
        low, high = clocks
        scale = self.low * self.dynamic(low) + (1 - self.low) * self.dynamic(high)
        return self.servers / self.rated * (self.floor + max(load - self.floor, 0.0) * scale)


@dataclass(frozen=True, slots=True)
class Played:
    """powers: of the row over its budget, a tick each.  brakes: how often it rose above the budget.
    commands: how often the knob changed its mind.  clocks: part of the time at each pair of them, low priority first.
    """

    powers: Sequence[float]
    brakes: int
    commands: int
    clocks: dict[tuple[float, float], float]
