"""The conditions of a predicted figure that its error depends on, and the terms of the error model they select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FIGURES = ("ttft", "tpot", "e2e", "throughput", "layer", "step_time", "peak_memory")

FigureKind = Literal["ttft", "tpot", "e2e", "throughput", "layer", "step_time", "peak_memory"]
Origin = Literal["measured", "borrowed", "roofline", "fitted"]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known of one predicted figure.

    figure: its kind (gaps between tokens count as `tpot`).  load: how requests arrive (`closed`, `rate`, `static`,
    `queued` and others of `poise.validation.load`).  tail: a percentile from the 90th on.
    disagg: prefill and decode on pools of their own.  guessed: parts of the layout are not stated.
    engine: engine and the version from which on it behaves so.  model, device: names of the catalogue.
    kind: the family of architectures (`dense`, `moe`, `mla`, `linear`).  weights: the format.
    devices: of a replica.  origin: where most operators come from, at worst.
    """

    figure: FigureKind
    load: str = "rate"
    tail: bool = False
    disagg: bool = False
    guessed: bool = False
    engine: str = ""
    device: str = ""
    vendor: str = ""
    model: str = ""
    kind: str = "dense"
    weights: str = "bf16"
    devices: int = 1
    origin: Origin = "measured"

    @property
    def slower(self) -> int:
        """1 where a slower system has a larger value, -1 where it has a smaller one."""
        return -1 if self.figure == "throughput" else 1

    def general(self) -> tuple[str, ...]:
        """Terms that unseen models and devices have too."""
        where = f"{self.figure} {self.load}{' disagg' if self.disagg else ''}"
        flags = {
            "tail": self.tail, "guessed": self.guessed, "several devices": self.devices > 1,
            "several hosts": self.devices > 8,
        }  # fmt: skip
        return (
            self.figure,
            where,
            f"{self.figure} engine {self.engine}",
            f"{self.figure} maker {self.vendor}",
            f"{self.figure} {self.kind}",
            f"{self.figure} weights {self.weights}",
            f"{self.figure} {self.origin}",
            *(f"{self.figure} {name}" for name, holds in flags.items() if holds),
        )

    def own(self) -> tuple[str, ...]:
        """Terms of what is named: they count where rows alike were measured."""
        return (
            f"{self.figure} model {self.model}",
            f"{self.figure} device {self.device}",
            f"{self.figure} {self.engine} on {self.device}",
            f"{self.figure} {self.engine} of {self.model}",
        )
