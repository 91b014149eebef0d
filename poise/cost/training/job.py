"""What is to be trained: a model on a cluster, with its sequences, its batch and the software's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from poise.core.errors import ScenarioError
from poise.core.model import Model, Moe
from poise.core.spec import Device

Precision = Literal["bf16", "fp8", "fp8_rows", "mxfp8", "fp8_block", "nvfp4"]
Attention = Literal["flash", "flash1", "flash2", "fused", "eager"]
Fused = Literal["all", "norms", "none"]

NODE = 8
"""Devices of a server whose scale-up domain is not stated."""


@dataclass(frozen=True, slots=True)
class Job:
    """One optimizer step: `batch` sequences of `sequence` tokens through `model` on `devices` of one kind.

    node: devices of one server, or of one scale-up domain (0: the device's own).  nic_bw: bytes/s one way per device
    between servers (0: the device's own).  rails: NICs of a server that one ring uses (0: one per rank there).
    attention: one kernel (`flash`: the newest that the device has; `flash1`, `flash2`: FlashAttention 1, 2), a fused
    softmax between two products (`fused`) or single kernels throughout (`eager`).
    fused: which light kernels are: all, norms alone, or none.  gathered: every tensor rank has all logits at the loss,
    for which PyTorch's own cross entropy is used.  early_stop: recomputation ends at the last value that the backward
    needs, short of a layer's last product (PyTorch's non-reentrant checkpoints).
    precision: of the layers' products: 16 bits; 8 bits with one scale a tensor (`fp8`) or row (`fp8_rows`), for 32
    values (`mxfp8`) or for blocks of 128 (`fp8_block`, DeepSeek-V3); 4 bits (`nvfp4`). Attention,
    router and head stay in 16 bits.
    host: the software whose figures are taken ("" Megatron's, `poise.cost.training.figures`).  dropout: whether masks
    are kept.  adapters: the rank of LoRA's adapters, the model's own weights frozen (0: all weights are trained).
    skew: the load of the fullest rank of experts over the mean (1: even loads).
    chunked: the loss is computed in parts, so that logits are never whole.
    once: tokens are sent to a rank once for all of its experts (DeepEP, HybridEP), not once for each (all-to-all).
    paired: an exchange of one microbatch runs beside another's compute (DualPipe; Megatron-LM's overlap in 1F1B).
    summed_bytes: of a gradient value where data ranks all-reduce whole gradients, of which sharded optimizers then take
    their part (0: they scatter sums, at the layout's `gradient_bytes`).
    gates_apart: a block's gate is a product of its own, whose input gradient tensor ranks sum on its own.
    """

    model: Model
    device: Device
    devices: int
    sequence: int
    batch: int
    precision: Precision = "bf16"
    node: int = 0
    nic_bw: float = 0.0
    rails: int = 0
    attention: Attention = "flash"
    fused: Fused = "all"
    gathered: bool = False
    early_stop: bool = False
    dropout: bool = False
    host: str = ""
    adapters: int = 0
    skew: float = 1.0
    chunked: bool = False
    once: bool = True
    paired: bool = False
    summed_bytes: int = 0
    gates_apart: bool = False

    def __post_init__(self) -> None:
        for name in ("devices", "sequence", "batch"):
            if getattr(self, name) < 1:
                raise ScenarioError(f"job.{name} is {getattr(self, name)}; it is a count: give 1 or more")
        if self.device.bf16_flops <= 0 or self.device.memory_bw <= 0:
            raise ScenarioError(
                f"device {self.device.name}: its peak or its memory bandwidth is not known; give a device with both"
            )

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batch * self.sequence

    @property
    def inside(self) -> int:
        """Devices that one server joins by its own links."""
        return self.node or (self.device.scaleup_domain if self.device.scaleup_domain > 1 else NODE)

    @property
    def far_bw(self) -> float:
        """Bytes/s one way of a device between servers."""
        return self.nic_bw or self.device.scaleout_bw or self.device.host_bw

    @property
    def peak(self) -> float:
        """FLOP/s by which utilisation counts."""
        return (self.device.fp8_flops if self.narrow else 0.0) or self.device.bf16_flops

    @property
    def narrow(self) -> bool:
        """Whether the layers' products are in fewer than 16 bits."""
        return self.precision != "bf16" and self.device.fp8_flops > 0


def shape(
    layers: int, hidden: int, heads: int, *, ffn: int = 0, kv_heads: int = 0, vocab: int = 51200, head_dim: int = 0,
    gated: bool = False, tied: bool = True, experts: int = 0, active: int = 0, expert_ffn: int = 0, context: int = 2048,
    name: str = "",
) -> Model:  # fmt: skip
    """A model by its shape; `ffn` 0 is 4 × hidden, `kv_heads` 0 as many as heads, `head_dim` 0 hidden / heads."""
    moe = Moe(experts, active, expert_ffn or ffn or 4 * hidden, layers) if experts else None
    return Model(
        name=name or f"{layers}x{hidden}", layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads or heads,
        head_dim=head_dim or hidden // heads, vocab=vocab, ffn=ffn or 4 * hidden, max_context=context, gated=gated,
        tied=tied, moe=moe, source="given by shape",
    )  # fmt: skip
