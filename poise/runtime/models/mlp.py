"""The gated feed-forward layer (SwiGLU: Shazeer, arXiv 2002.05202)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from poise.runtime.tensor import TensorPeers, enter, leave


class Mlp(nn.Module):
    """down(silu(gate(x)) · up(x)); `names` are those of gate, up and down in the model's checkpoints."""

    def __init__(
        self, hidden: int, inner: int, *, bias: bool = False,
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:  # fmt: skip
        super().__init__()
        self._names = names
        self.beside: TensorPeers | None = None
        for name, (before, behind) in zip(names, ((hidden, inner), (hidden, inner), (inner, hidden)), strict=True):
            self.add_module(name, nn.Linear(before, behind, bias=bias))

    def forward(self, x: Tensor) -> Tensor:
        """(…, hidden) to the same."""
        gate, up, down = (self.get_submodule(name) for name in self._names)
        x = enter(x, self.beside)
        return leave(functional.silu(gate(x)) * up(x), down, self.beside)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's part of the inner width."""
        self.divide(beside)
        self.beside = beside

    def divide(self, beside: TensorPeers) -> None:
        """The same, where the caller sums over the ranks."""
        gate, up, down = (self.get_submodule(name) for name in self._names)
        beside.columns(gate)
        beside.columns(up)
        beside.rows(down)

    def flops(self, length: int) -> float:
        """Of a token's forward."""
        return 2 * sum(weight.numel() for weight in self.parameters() if weight.dim() > 1)
