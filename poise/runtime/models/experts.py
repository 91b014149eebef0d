"""A mixture of experts without dropped tokens: the router's choice, then each expert on the tokens that chose it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from poise.runtime.models.mlp import Mlp
from poise.runtime.models.norm import wide
from poise.runtime.models.shape import Experts
from poise.runtime.tensor import TensorPeers, enter, total

MIXTRAL = ("w1", "w3", "w2")
"""Its names of gate, up and down."""


def choose(logits: Tensor, of: Experts) -> tuple[Tensor, Tensor]:
    """The weights and numbers of each token's experts, (tokens, chosen): the largest of softmax(logits).

    With groups, only experts of the groups with the largest best expert (DeepSeek-V2, section 2.1.2).
    """
    scores = logits.to(wide(logits)).softmax(-1)
    if of.groups > 1:
        grouped = scores.view(len(scores), of.groups, -1)
        best = grouped.amax(-1).topk(of.kept, -1).indices
        kept = torch.zeros_like(grouped[..., 0]).scatter(-1, best, 1.0)
        scores = (grouped * kept[..., None]).flatten(-2)
    weights, numbers = scores.topk(of.chosen, -1)
    weights = weights / weights.sum(-1, keepdim=True) if of.normalised else weights * of.scale
    return weights.to(logits.dtype), numbers


class Mixture(nn.Module):
    """The sum of a token's chosen experts by their weights, and of the shared expert where there is one.

    Every expert is called, with no token at times, so that each weight has a gradient on every rank.
    """

    def __init__(self, hidden: int, of: Experts) -> None:
        super().__init__()
        self.of = of
        self.beside: TensorPeers | None = None
        names = MIXTRAL if of.naming == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        self.gate = nn.Linear(hidden, of.count, bias=False)
        self.experts = nn.ModuleList(Mlp(hidden, of.inner, names=names) for _ in range(of.count))
        if of.shared and of.naming == "qwen":
            self.shared_expert = Mlp(hidden, of.shared)
            self.shared_expert_gate = nn.Linear(hidden, 1, bias=False)
        elif of.shared:
            self.shared_experts = Mlp(hidden, of.shared)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) to the same."""
        flat = x.flatten(0, -2)
        weights, numbers = choose(self.gate(flat), self.of)
        order = numbers.flatten().argsort(stable=True)
        inner, weights = enter(flat, self.beside), enter(weights, self.beside)
        counts = torch.bincount(numbers.flatten(), minlength=self.of.count).tolist()
        token = order // self.of.chosen
        parts = [expert(part) for expert, part in zip(self.experts, torch.split(inner[token], counts), strict=True)]
        weighted = torch.cat(parts) * weights.flatten()[order, None]
        mixed = torch.zeros_like(weighted[:1]).expand(len(flat), -1).index_add(0, token, weighted)
        return total(mixed + self._shared(flat, inner), self.beside).view_as(x).to(x.dtype)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's part of each expert's inner width; every rank routes all tokens."""
        self.beside = beside
        for each in self.modules():
            if isinstance(each, Mlp):
                each.divide(beside)

    def flops(self, length: int) -> float:
        """Of a token's forward: its own experts alone."""
        one = self.experts[0]
        assert isinstance(one, Mlp)
        whole = sum(weight.numel() for name, weight in self.named_parameters() if not name.startswith("experts."))
        return 2 * whole + self.of.chosen * one.flops(length)

    def _shared(self, x: Tensor, inner: Tensor) -> Tensor | float:
        if not self.of.shared:
            return 0.0
        if self.of.naming == "qwen":
            gated: Tensor = enter(self.shared_expert_gate(x).sigmoid(), self.beside) * self.shared_expert(inner)
            return gated
        found: Tensor = self.shared_experts(inner)
        return found
