"""Device power over a run, the effect of a lower clock on power and steps, and the clocks that a power cap leaves.

POLCA (arXiv 2308.12908), section 3, measured on A100: an idle device draws about a fifth of its TDP; a prompt draws the
TDP or more, decoding less and evenly; peaks do not depend on outputs. A locked clock slows what arithmetic bounds and
leaves what memory bounds nearly as it was. A power cap lowers the clock only as far as what runs just then would draw
more: prompts first, decoding from a lower cap on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from poise.core.errors import ScenarioError, UserError
from poise.core.spec import Device, Pool
from poise.core.units import seconds

Slice = tuple[int, int, int, int, int, int]
"""One held batch of a run: start, end, replica, lane, decodes, prompt tokens."""


@dataclass(frozen=True, slots=True)
class Power:
    """Power of a device as parts of its TDP.

    idle: with nothing to do (POLCA).  prefill: while a step has prompt work (POLCA).  decode: while it has none (ours:
    the paper has it lower and even, without a figure).  exponent: what is above idle goes by clock to this power (ours:
    at 1.2 the paper's lowest clock, 1,110 of 1,410 MHz, takes a fifth off the peak, which is the most it reports).
    """

    idle: float = 0.2
    prefill: float = 1.0
    decode: float = 0.6
    exponent: float = 1.2

    def __post_init__(self) -> None:
        if not 0 <= self.idle <= self.decode <= self.prefill or self.exponent < 0:
            raise UserError(f"{self}: power rises from idle to decode to prefill; give parts of the TDP in that order")

    def watts(self, device: Device, busy: float, clock: float = 1.0) -> float:
        """Watts of one device: idle + (busy − idle) · clock^exponent, with `busy` as `prefill` or `decode`."""
        if device.tdp_w <= 0:
            raise UserError(f"device {device.name}: its tdp_w is not known, so its power is not; give it")
        return device.tdp_w * (self.idle + (busy - self.idle) * float(clock**self.exponent))

    def clock(self, share: float, busy: float) -> float:
        """The part of the full clock at which a device draws `share` of its TDP; 1 where it draws no more anyway.

        busy: what it would draw, as `prefill` or `decode`.
        """
        if share >= busy or not self.exponent:
            return 1.0
        return float(((share - self.idle) / (busy - self.idle)) ** (1 / self.exponent))

    def mean(self, share: float, use: float, prompts: float) -> float:
        """Mean power under a cap at `share` of the TDP, as a part of it: a step draws no more than the cap.

        use: the share of time with a running step, of which the part `prompts` has prompt work.
        """
        prefill, decode = min(share, self.prefill), min(share, self.decode)
        return self.idle + use * (prompts * prefill + (1 - prompts) * decode - self.idle)

    def joules(
        self, slices: Iterable[Slice], device: Device, each: int, replicas: int, span_s: float, clock: float = 1.0
    ) -> float:
        """Joules of `replicas` of `each` devices over `span_s` seconds; a slice keeps those of its replica busy."""
        busy = {False: 0.0, True: 0.0}
        for start, end, _, _, decodes, prompt_tokens in slices:
            if decodes or prompt_tokens:
                busy[prompt_tokens > 0] += seconds(end - start)
        idle, decode, prefill = (self.watts(device, level, clock) for level in (self.idle, self.decode, self.prefill))
        return each * (replicas * span_s * idle + busy[False] * (decode - idle) + busy[True] * (prefill - idle))


POWER = Power()
"""The function by which caps become clocks and energy."""


def cap_of(pool: Pool) -> float:
    """The cap of a pool's devices as a part of their TDP, 1 for none; ScenarioError for one that cannot be."""
    if not pool.power_cap_w:
        return 1.0
    tdp_w, idle_w = pool.device.tdp_w, POWER.idle * pool.device.tdp_w
    if tdp_w <= 0:
        raise ScenarioError(f"pool.power_cap_w: the TDP of {pool.device.name} is not known; give the device its tdp_w")
    if pool.power_cap_w <= idle_w:
        raise ScenarioError(
            f"pool.power_cap_w is {pool.power_cap_w:g}, and {pool.device.name} draws {idle_w:g} W idle; give more"
        )
    return min(1.0, pool.power_cap_w / tdp_w)


def clocks(pool: Pool) -> tuple[float, float]:
    """The clocks that a pool's cap leaves to steps with prompt work and to those without."""
    share = cap_of(pool)
    return POWER.clock(share, POWER.prefill), POWER.clock(share, POWER.decode)


def capped(device: Device, clock: float) -> Device:
    """The device at a part of its clock: arithmetic peaks in proportion, memory and links as they were."""
    if not 0 < clock <= 1:
        raise UserError(f"clock {clock} is no part of the full one; give more than 0 and at most 1")
    return replace(
        device, bf16_flops=device.bf16_flops * clock, fp8_flops=device.fp8_flops * clock,
        int8_ops=device.int8_ops * clock, fp4_flops=device.fp4_flops * clock,
    )  # fmt: skip
