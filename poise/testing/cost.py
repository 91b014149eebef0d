"""Estimators for tests: round numbers instead of hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.estimate import Piece, Running, StepShape
from poise.core.units import ps


@dataclass(frozen=True, slots=True)
class LinearAdapters:
    """Adapter n takes n + 1 times these seconds: to load, from disk on top of that, and in each step."""

    load_s: float = 0.0
    disk_s: float = 0.0
    read_s: float = 0.0

    def load(self, adapter: int, in_host: bool) -> int:
        """The time to bring an adapter to the device."""
        return (adapter + 1) * ps(self.load_s if in_host else self.load_s + self.disk_s)

    def launch(self) -> int:
        """Nothing besides."""
        return 0

    def read(self, adapter: int) -> int:
        """What a step with it takes longer."""
        return (adapter + 1) * ps(self.read_s)


@dataclass(frozen=True, slots=True)
class LinearSharing:
    """Steps beside others take `slowed` times as long, once their hosts have worked for `waits` picoseconds."""

    switch: int
    slowed: float
    waits: int

    def host(self, shape: StepShape) -> int:
        """Picoseconds of the host of each step."""
        return self.waits

    def factors(self, running: Sequence[Running]) -> list[float]:
        """The factor for each."""
        return [self.slowed if len(running) > 1 else 1.0 for _ in running]


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A step takes `step_s`, plus the given times for each decode, each prompt token and each KV token read.

    Chunks that pass only some of `layers` layers cost their share; lanes with an SM share s take 1/s as long.
    copies: devices of which all but one may be lost, each of which takes half a step's time longer.  slowed: the factor
    on steps of lanes that run side by side.  switch_s: before a step of a lane with another share.  host_s: of the
    host at the begin of each step, which shares do not change.
    """

    step_s: float = 0.01
    decode_s: float = 0.0
    prompt_s: float = 0.0
    kv_s: float = 0.0
    window_s: float = 0.0
    window: int = 0
    layers: int = 1
    token_bytes: int = 1000
    swap_bw: float = 1e9
    swap_run_s: float = 0.0
    copies: int = 1
    slowed: float = 1.0
    switch_s: float = 0.0
    host_s: float = 0.0

    @property
    def sharing(self) -> LinearSharing:
        """How lanes slow one another."""
        return LinearSharing(ps(self.switch_s), self.slowed, ps(self.host_s))

    def step(self, shape: StepShape) -> Piece:
        """The piece of one step."""
        time = self.step_s + self.decode_s * shape.decodes
        for chunk in shape.chunks:
            part = (chunk.last_layer - chunk.first_layer) / self.layers if chunk.last_layer else 1.0
            time += self.prompt_s * chunk.tokens * part
        return Piece(
            ps(time / shape.share) + ps(self.host_s), ps(self.kv_s / shape.share), ps(self.window_s / shape.share)
        )

    def one_chunk(self, decodes: int, tokens: int, context: int) -> tuple[int, int]:
        """Base and per_kv of the step of one chunk."""
        base = ps(self.step_s + self.decode_s * decodes + self.prompt_s * tokens) + ps(self.host_s)
        return base, ps(self.kv_s)

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of the KV cache of `tokens` tokens."""
        return tokens * self.token_bytes

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds to move `kv_bytes` to host memory or back."""
        return ps(kv_bytes / self.swap_bw + runs * self.swap_run_s)

    def after_loss(self, lost: int) -> float | None:
        """The factor on step times with this many devices lost; None: the replica is lost."""
        return 1 + lost / 2 if lost < self.copies else None

    def describe(self) -> dict[str, object]:
        """The coefficients."""
        return {
            "cost": "linear, for tests",
            "step_s": self.step_s,
            "decode_s": self.decode_s,
            "prompt_s": self.prompt_s,
        }
