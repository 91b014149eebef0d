"""A stage of the pipeline on this rank: its module, and the microbatches that are between forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.distributed.tensor import DTensor
from torch.func import functional_call

from poise.core.errors import ScheduleError
from poise.runtime import chance
from poise.runtime.saved import Handle, Saved, restore
from poise.runtime.split import Rest, backward, input_gradients, weight_gradients
from poise.runtime.versions import Leaves, Versions

Tensors = tuple[Tensor, ...]
LossFn = Callable[..., Tensor]
"""From the last stage's outputs and the target to a scalar, the mean over the microbatch."""


@dataclass
class Open:
    """A microbatch in a stage: what its backward needs."""

    leaves: Tensors
    """The inputs."""
    roots: list[GradientEdge] = field(default_factory=list)
    """The outputs that need gradients; none while only the inputs are kept."""
    shapes: list[Tensor] = field(default_factory=list)
    """Their shapes, without content."""
    seed: Tensors | None = None
    """The gradient of the loss, 1, where the stage ends in one."""
    rest: Rest | None = None
    """What is left to do for the weights."""
    weights: Leaves | None = None
    """Those of the forward, where they may have changed since."""
    saved: Saved | None = None
    """What autograd saved, where that is counted or moved."""
    moved: list[Handle] = field(default_factory=list)
    """Where the inputs' content is while it is on the host."""
    away: bool = False
    """Whether it is on the host alone, and no memory is reserved for the way back."""
    chance: dict[str, Tensor] | None = None
    """The state of the random numbers before the forward, where it is to be run again."""
    target: Tensor | None = None
    shared: Mapping[str, Tensor] = field(default_factory=dict)
    """Keyword inputs."""

    @property
    def full(self) -> bool:
        """Whether the activations are here: not dropped, and not on the host."""
        return not self.away and bool(self.roots or self.rest)

    @property
    def carrying(self) -> Tensors:
        """The inputs that need gradients."""
        return tuple(each for each in self.leaves if each.requires_grad)


class Stage:
    """A module that is run microbatch by microbatch; `loss_fn` makes it the last one.

    The module takes the tensors that the stage before gives and returns a tensor or a tuple of them. Floating tensors
    may carry gradients; others (masks, positions) only pass. `versions` are its weights where they change behind every
    backward. With `watched` what autograd saves is counted, and can be moved to the host.
    """

    def __init__(
        self, index: int, module: nn.Module, loss_fn: LossFn | None = None, *,
        versions: Versions | None = None, watched: bool = False,
    ) -> None:  # fmt: skip
        self.index = index
        self.module = module
        self.loss_fn = loss_fn
        self.versions = versions
        self.watched = watched
        self.open: dict[int, Open] = {}
        self.losses: dict[int, Tensor] = {}

    def forward(
        self, microbatch: int, inputs: Tensors, target: Tensor | None, *, keep: bool = True,
        shared: Mapping[str, Tensor] | None = None,
    ) -> Tensors:  # fmt: skip
        """The outputs, cut off from autograd; of the last stage its loss. Without `keep` only the inputs stay."""
        leaves = tuple(each.detach().requires_grad_(each.requires_grad) for each in inputs)
        self.open[microbatch] = opened = Open(leaves, target=target, shared=shared or {})
        if not keep:
            opened.chance = chance.state()
        if self.versions is not None:
            opened.weights = self.versions.leaves(microbatch)
        outputs = self._run(opened)
        if not keep:
            opened.roots, opened.saved = [], None
        if self.loss_fn is not None:
            self.losses[microbatch] = outputs[0].detach()
        return tuple(each.detach().requires_grad_(each.requires_grad) for each in outputs)

    def recompute(self, microbatch: int) -> None:
        """Run the forward again, as it was: same inputs, same weights, same random numbers."""
        opened = self.open[microbatch]
        assert opened.chance is not None
        now = chance.state()
        chance.restore(opened.chance)
        opened.shapes = []
        self._run(opened)
        chance.restore(now)

    def backward(self, microbatch: int, gradients: Tensors) -> Tensors:
        """Input and weight gradients at once; the input gradients are handed on."""
        opened = self.open.pop(microbatch)
        found = _whole(backward(opened.roots, opened.seed or gradients, opened.carrying), opened.carrying)
        self._update(microbatch, opened)
        return found

    def backward_input(self, microbatch: int, gradients: Tensors) -> Tensors:
        """The input gradients alone."""
        opened = self.open[microbatch]
        carrying = opened.carrying
        found, opened.rest = input_gradients(opened.roots, opened.seed or gradients, carrying)
        opened.roots, opened.leaves = [], ()
        return _whole(found, carrying)

    def backward_weight(self, microbatch: int) -> None:
        """The weight gradients, after `backward_input`."""
        opened = self.open.pop(microbatch)
        assert opened.rest is not None
        weight_gradients(opened.rest)
        self._update(microbatch, opened)

    def offload(self, microbatch: int) -> None:
        """Copy the activations to the host and free them here."""
        self.copy_away(microbatch)
        self.drop(microbatch)

    def copy_away(self, microbatch: int) -> None:
        """Copy the activations to the host."""
        opened = self.open[microbatch]
        assert opened.saved is not None
        opened.moved = [opened.saved.add(each.data) for each in opened.leaves]
        opened.saved.copy_away()

    def drop(self, microbatch: int) -> None:
        """Free here what is on the host."""
        opened = self.open[microbatch]
        assert opened.saved is not None
        opened.saved.drop()
        opened.away = True
        for leaf in opened.leaves:
            leaf.data = leaf.data.new_empty(0)

    def reload(self, microbatch: int, device: torch.device | None = None) -> None:
        """Copy them back, to where they were or to `device`."""
        opened = self.open[microbatch]
        assert opened.saved is not None
        opened.saved.reload(device)
        for leaf, handle in zip(opened.leaves, opened.moved, strict=True):
            leaf.data = restore(handle)
        opened.moved, opened.away = [], False

    def _run(self, opened: Open) -> Tensors:
        """The module, and the loss; leaves in `opened` what a backward needs."""
        if self.watched:
            opened.saved = Saved((opened.weights or dict(self.module.named_parameters())).values())
        with torch.enable_grad(), opened.saved.watch() if opened.saved else nullcontext():
            outputs = self._checked(self._call(opened))
            if self.loss_fn is not None:
                outputs = (self._loss(outputs, opened.target),)
                opened.seed = (torch.ones_like(outputs[0]),)
        for each in outputs:
            if each.requires_grad:
                opened.roots.append(get_gradient_edge(each))
                opened.shapes.append(torch.empty_like(each, device="meta"))
        return outputs

    def _call(self, opened: Open) -> object:
        if opened.weights is None:
            return self.module(*opened.leaves, **opened.shared)
        return functional_call(self.module, opened.weights, opened.leaves, dict(opened.shared))

    def _checked(self, found: object) -> Tensors:
        outputs = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(each, Tensor) for each in outputs):
            raise ScheduleError(
                f"stage {self.index} returns {', '.join(type(each).__name__ for each in outputs)}; stages hand on a "
                "tensor or a tuple of tensors, so wrap the module to return these"
            )
        return outputs

    def _loss(self, outputs: Tensors, target: Tensor | None) -> Tensor:
        assert self.loss_fn is not None
        loss = self.loss_fn(*outputs, target)
        if loss.numel() != 1:
            raise ScheduleError(f"loss_fn returns a tensor of shape {tuple(loss.shape)}; it must return one number")
        return loss.reshape(())

    def _update(self, microbatch: int, opened: Open) -> None:
        """Where weights change behind every backward, change them."""
        if self.versions is not None and opened.weights is not None:
            self.versions.update(microbatch, opened.weights)


def gradients_of(module: nn.Module, skip: Container[int] = ()) -> list[Tensor]:
    """This rank's gradients of a module's weights, but for those whose ids are in `skip`: zeros where none came by."""
    found = []
    for weight in module.parameters():
        if weight.requires_grad and id(weight) not in skip:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            found.append(own_part(weight.grad))
    return found


def own_part(tensor: Tensor) -> Tensor:
    """This rank's part of a sharded tensor, in its own memory; a whole tensor as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _whole(found: Sequence[Tensor | None], inputs: Tensors) -> Tensors:
    """Zeros for inputs that nothing depends on."""
    return tuple(torch.zeros_like(leaf) if each is None else each for each, leaf in zip(found, inputs, strict=True))
