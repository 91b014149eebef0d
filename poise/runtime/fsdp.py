"""Sharded weights (FSDP2, `fully_shard`) that a schedule gathers, frees and reduces where it says so.

By itself a wrapped module does that in hooks around each forward and backward; a pipeline has many of them in a step,
and splits backwards, for whose second part FSDP would have freed the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from poise.runtime.program.handle import Later, Payload


class _Unsharding:
    """Gathers under way."""

    peer = -1

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def done(self) -> bool:
        """It is waited for where the weights are used: a gather says nothing before."""
        return True

    def wait(self) -> tuple[Payload]:
        """The weights are whole."""
        for each in self._handles:
            each.wait()
        return (None,)


def wrapped(modules: Mapping[int, nn.Module]) -> frozenset[int]:
    """The stages whose weights are sharded."""
    return frozenset(stage for stage, module in modules.items() if any(_parts(module)))


def prepare(module: nn.Module) -> None:
    """Leave gathering, freeing and reducing to the schedule; call it before each step."""
    for each in _parts(module):
        each.set_is_last_backward(False)
        each.set_reshard_after_forward(False, recurse=False)
        each.set_reshard_after_backward(False, recurse=False)
        each.set_requires_gradient_sync(False, recurse=False)


def unshard(module: nn.Module) -> Later:
    """Begin to gather the weights."""
    return Later(_Unsharding([each.unshard(async_op=True) for each in _parts(module)]))


def reshard(module: nn.Module) -> None:
    """Free the gathered weights."""
    for each in _parts(module):
        each.reshard()


def reduce(module: nn.Module) -> None:
    """Sum the gradients over the data ranks and keep this rank's part, as their mean.

    What PyTorch's pipelines do for REDUCE_GRAD (torch.distributed.pipelining.stage, perform_reduce_grad).
    """
    parts = list(_parts(module))
    for each in parts:
        each.set_is_last_backward(True)
        each.set_reshard_after_backward(True, recurse=False)
        each.set_requires_gradient_sync(True, recurse=False)
    for each in parts:
        root: Any = fully_shard.state(each)  # type: ignore[attr-defined]
        for group in root._fsdp_param_groups:
            group.post_backward()
    if parts:
        state: Any = fully_shard.state(parts[0])  # type: ignore[attr-defined]
        state._root_post_backward_final_callback()


def _parts(module: nn.Module) -> Iterator[FSDPModule]:
    return (each for each in module.modules() if isinstance(each, FSDPModule))
