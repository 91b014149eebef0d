"""The weights of a stage where they change behind every backward, while other microbatches are between theirs.

PipeDream (Narayanan et al., SOSP 2019): a backward uses the weights of its forward ("stash"), or all stages those that
the first stage had ("vertical"). Pipelined backpropagation (Kosson et al., MLSys 2021): it uses the newest ("latest").
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from poise.pipeline.schedule import Schedule

Leaves = dict[str, Tensor]
"""Weights by name, as autograd's leaves: views of the module's weights, or of what these were."""


class Versions:
    """The versions of a stage's weights that microbatches on `rank` still need; the module always has the newest.

    A version costs no memory until it is left behind: only then, and only if it is still needed, do the module's
    weights move to new storage. Under "latest" there is but one, changed in place under the activations of forwards.
    """

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, stage: int, rank: int
    ) -> None:
        self._module = module
        self.optimizer = optimizer
        self._latest = schedule.updates == "latest"
        self._schedule, self._stage = schedule, stage
        own = {op.microbatch for op in schedule.ranks[rank] if op.stage == stage}
        self._own = [schedule.versions[stage, each] for each in sorted(each for each in own if each is not None)]
        self.begin()

    def begin(self) -> None:
        """Start a step of the schedule: version 0 is what the module has now."""
        self.newest = 0
        self._left: Counter[int] = Counter()
        for version in self._own:
            self._left.update((version.forward, version.backward))
        self._leaves = {0: self._alias()}
        self.most = 1

    def leaves(self, microbatch: int) -> Leaves:
        """The weights for a forward."""
        number = self._schedule.versions[self._stage, microbatch].forward
        return self._leaves[self.newest if self._latest else self._use(number)]

    def update(self, microbatch: int, leaves: Leaves) -> None:
        """Step the newest weights by the gradients that a backward left at `leaves`."""
        number = self._schedule.versions[self._stage, microbatch].backward
        for name, weight in self._module.named_parameters():
            weight.grad, leaves[name].grad = leaves[name].grad, None
        if not self._latest:
            self._use(number)
            self._leave()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.newest += 1
        if self._latest:
            self._leaves = {self.newest: self._leaves.popitem()[1]}
        else:
            self._leaves[self.newest] = self._alias()
        self.most = max(self.most, len(self._leaves))

    def _use(self, number: int) -> int:
        self._left[number] -= 1
        return number

    def _leave(self) -> None:
        """Drop versions that are no longer needed; copy the newest version if it still is."""
        for number in list(self._leaves):
            if self._left[number] <= 0:
                del self._leaves[number]
        if self.newest in self._leaves:
            for weight in self._module.parameters():
                weight.data = weight.data.clone()

    def _alias(self) -> Leaves:
        """Leaves that share the module's storage but not its version counter, so autograd lets it change."""
        return {
            name: weight.data.requires_grad_(weight.requires_grad) for name, weight in self._module.named_parameters()
        }
