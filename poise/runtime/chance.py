"""The state of torch's random numbers, of the CPU and of this rank's GPU."""

from __future__ import annotations

import torch
from torch import Tensor


def state() -> dict[str, Tensor]:
    """By kind of device; a GPU's where this process uses one."""
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def restore(given: dict[str, Tensor]) -> None:
    """Continue from a state."""
    if "cpu" in given:
        torch.set_rng_state(given["cpu"])
    if "cuda" in given:
        torch.cuda.set_rng_state(given["cuda"])
