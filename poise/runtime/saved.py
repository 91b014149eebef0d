"""Tensors that autograd saves for a microbatch: counted to the byte, offloaded and reloaded as scheduled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


@dataclass
class Slot:
    """A storage that is here, or on the host."""

    here: torch.UntypedStorage | None
    host: torch.UntypedStorage | None = None
    device: torch.device | None = None
    """Where it was before it went to the host."""


class Handle(NamedTuple):
    """A saved tensor: where its content lies."""

    slot: Slot
    dtype: torch.dtype
    device: torch.device
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Saved:
    """The storages that a microbatch holds in a stage, each once; those of `weights` are the stage's own."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self._weights = {_storage(each).data_ptr() for each in weights}
        self._slots: dict[int, Slot] = {}

    def watch(self) -> AbstractContextManager[Any]:
        """Context in which autograd saves its tensors here."""
        return saved_tensors_hooks(self._pack, _unpack)

    def add(self, tensor: Tensor) -> Handle:
        """Hold the storage of a tensor; the handle gives the tensor back, wherever the storage was in between."""
        storage = _storage(tensor)
        slot = self._slots.setdefault(storage.data_ptr(), Slot(storage))
        where = int(tensor.storage_offset())
        return Handle(slot, tensor.dtype, tensor.device, where, tuple(tensor.shape), tuple(tensor.stride()))

    def storages(self) -> dict[int, int]:
        """Bytes of the storages that are here, by address."""
        here = [slot.here for slot in self._slots.values() if slot.here is not None]
        return {storage.data_ptr(): storage.nbytes() for storage in here}

    def copy_away(self) -> None:
        """Copy all to the host (on a CPU: to another buffer)."""
        for slot in self._slots.values():
            assert slot.here is not None
            slot.host, slot.device = _copy(slot.here, torch.device("cpu")), slot.here.device

    def drop(self) -> None:
        """Free what is on the host as well."""
        for slot in self._slots.values():
            slot.here = None

    def reload(self, device: torch.device | None = None) -> None:
        """Copy all back, to where it was or to `device`."""
        for slot in self._slots.values():
            assert slot.host is not None
            slot.here = _copy(slot.host, device or slot.device or torch.device("cpu"))
            slot.host = None

    def _pack(self, tensor: Tensor) -> Handle | Tensor:
        if tensor.numel() == 0 or _storage(tensor).data_ptr() in self._weights:
            return tensor.detach()
        return self.add(tensor)


def _unpack(packed: Handle | Tensor) -> Tensor:
    return packed if isinstance(packed, Tensor) else restore(packed)


def restore(handle: Handle) -> Tensor:
    """The tensor of a handle whose storage is here."""
    assert handle.slot.here is not None
    empty = torch.empty(0, dtype=handle.dtype, device=handle.device)
    return empty.set_(handle.slot.here, handle.offset, handle.shape, handle.stride)


def _copy(storage: torch.UntypedStorage, device: torch.device) -> torch.UntypedStorage:
    fresh = torch.empty(storage.nbytes(), dtype=torch.uint8, device=device).untyped_storage()
    fresh.copy_(storage)
    return fresh


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()
