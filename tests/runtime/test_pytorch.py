"""PyTorch's own runtime and ours agree wherever it can run a schedule; where it cannot, the operation is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from poise.pipeline import Schedule, make, names
from poise.pipeline.communicate import communicate
from poise.runtime.decoder import cross_entropy, cut, decoder
from poise.runtime.pytorch import PyTorchPipeline
from tests.runtime.cases import RANKS, with_copies, with_vocabulary
from tests.runtime.pool import Pool
from tests.runtime.truth import SIZE, batch, error

REFUSED = {
    "bitpipe", "chimera", "dualpipe", "pipedream", "pipelined_backprop", "po_f", "po_h", "skippipe", "vocab_1",
    "vocab_2",
}  # fmt: skip
"""Copies, changing weights, the host, paths and shards."""

EXACT = 1e-10


def run_there(schedule: Schedule) -> tuple[dict[int, float], dict[str, Tensor], list[str]]:
    parts = decoder(SIZE, dtype=torch.float64)
    names_of = {id(weight): name for name, weight in nn.Sequential(*parts).named_parameters()}
    modules = cut(parts, schedule.stages)
    losses = PyTorchPipeline(schedule, modules, cross_entropy).step(*batch(schedule.microbatches))
    own = [modules[stage] for stage, homes in enumerate(schedule.homes) if torch.distributed.get_rank() in homes]
    found = {names_of[id(w)]: w.grad for module in own for w in module.parameters() if w.grad is not None}
    return {at: loss.item() for at, loss in enumerate(losses)}, found, []


@pytest.mark.parametrize(
    "name",
    [name if name == "zb_v" else pytest.param(name, marks=pytest.mark.slow) for name in names() if name not in REFUSED],
)
def test_gradients_agree(pool: Pool, name: str) -> None:
    schedule = make(name, RANKS, 8)
    assert error(schedule, pool.run(run_there, schedule)) < EXACT


@pytest.mark.slow
def test_gradients_agree_with_our_communications(pool: Pool) -> None:
    schedule = communicate(make("zb_h1", RANKS, 8))
    assert error(schedule, pool.run(run_there, schedule)) < EXACT


def test_what_pytorch_cannot_run_is_named(pool: Pool) -> None:
    cases = {
        "stage 0 has copies on ranks 0 and 3": make("chimera", RANKS, 4),
        "microbatch 0 does not pass all stages in order": make("skippipe", RANKS, 4),
        r"0R\d \(rank 0, slot \d\) is none of PyTorch's operations": with_copies(make("gpipe", RANKS, 4), 1),
        r"0S\d \(rank 0, slot \d\) is none of PyTorch's operations": with_vocabulary(1, 1),
        "updates stash: PyTorch changes weights once": replace(make("one_f_one_b", RANKS, 4), updates="stash"),
    }
    for expected, schedule in cases.items():
        with pytest.raises(AssertionError, match=f"ScheduleError: {expected}"):
            pool.run(run_there, schedule)
