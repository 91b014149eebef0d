"""What runs beside forward and backward: recomputing, the host, paths, a vocabulary in shards, changing weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from poise.core.errors import ScheduleError
from poise.pipeline import Schedule, make
from poise.runtime import Pipeline, Stage
from poise.runtime.decoder import cross_entropy, cut, decoder
from tests.runtime.cases import RANKS, with_copies, with_paths, with_vocabulary
from tests.runtime.pool import Pool
from tests.runtime.truth import SIZE, batch, error, run

EXACT = 1e-10


@pytest.mark.parametrize(
    ("name", "seed"),
    [("zb_v", 1), pytest.param("chimera", 2, marks=pytest.mark.slow), pytest.param("gis", 3, marks=pytest.mark.slow)],
)
def test_recomputed_and_offloaded_activations_are_the_same(pool: Pool, name: str, seed: int) -> None:
    schedule = with_copies(make(name, RANKS, 8), seed)
    assert error(schedule, pool.run(run, schedule)) < EXACT


def test_random_numbers_of_a_recomputed_forward_are_the_same() -> None:
    stage = Stage(0, nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), lambda y, _: (y**2).sum())
    torch.manual_seed(1)
    (loss,) = stage.forward(0, (torch.ones(3, 4, requires_grad=True),), None, keep=False)
    assert not stage.open[0].full
    torch.rand(7)
    before = torch.get_rng_state()
    stage.recompute(0)
    assert torch.equal(torch.get_rng_state(), before)
    (found,) = stage.backward(0, ())
    torch.manual_seed(1)
    x = torch.ones(3, 4, requires_grad=True)
    true = (stage.module(x) ** 2).sum()
    true.backward()
    assert torch.equal(loss, true.detach()) and torch.equal(found, x.grad)  # type: ignore[arg-type]


def test_what_is_offloaded_is_freed_and_comes_back() -> None:
    stage = Stage(0, nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)), lambda y, _: y.sum(), watched=True)
    stage.forward(0, (torch.ones(32, 64, requires_grad=True),), None)
    saved = stage.open[0].saved
    assert saved is not None
    before = sum(saved.storages().values())
    assert before >= 2 * 32 * 64 * 4  # the input and what comes before and behind the GELU
    stage.offload(0)
    assert not saved.storages() and not stage.open[0].full
    assert stage.open[0].leaves[0].numel() == 0
    stage.reload(0, torch.device("cpu"))
    assert sum(saved.storages().values()) == before
    stage.backward(0, ())
    assert not stage.open


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_paths_leave_stages_out(pool: Pool, seed: int) -> None:
    schedule = with_paths(seed)
    assert error(schedule, pool.run(run, schedule)) < EXACT


@pytest.mark.parametrize("barriers", [1, 2])
def test_a_vocabulary_in_shards(pool: Pool, barriers: int) -> None:
    schedule = with_vocabulary(barriers, barriers)
    assert error(schedule, pool.run(run, schedule)) < EXACT


LR = 0.1


@pytest.mark.parametrize(
    "updates", ["latest", *(pytest.param(each, marks=pytest.mark.slow) for each in ("stash", "vertical"))]
)
def test_weights_that_change_behind_every_backward(pool: Pool, updates: str) -> None:
    """Against one process that follows the versions that the schedule tells."""
    schedule = replace(make("zb_h1" if updates == "latest" else "one_f_one_b", RANKS, 7), updates=updates)
    check_versions(pool, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipedream", "pipelined_backprop"])
def test_published_schedules_whose_weights_change(pool: Pool, name: str) -> None:
    check_versions(pool, make(name, RANKS, 8))


def check_versions(pool: Pool, schedule: Schedule) -> None:
    results = pool.run(_run_versions, schedule)
    wanted, losses = _by_versions(schedule)
    for rank, (found, own, most) in enumerate(results):
        for mine, true in zip(found, wanted[rank], strict=True):
            assert float((mine - true).abs().max()) < EXACT
        for at, loss in own.items():
            assert abs(loss - losses[at]) < EXACT
        if schedule.updates == "stash":
            assert most == [RANKS - rank]  # as many versions as microbatches under way


def _run_versions(schedule: Schedule) -> tuple[list[Tensor], dict[int, float], list[int]]:
    modules = cut(decoder(SIZE, dtype=torch.float64), schedule.stages)
    pipeline = Pipeline(schedule, modules, cross_entropy, optimizer=partial(torch.optim.SGD, lr=LR, momentum=0.5))
    outcome = pipeline.step(*batch(schedule.microbatches))
    own = [weight.detach() for stage in pipeline.stages.values() for weight in stage.module.parameters()]
    most = [stage.versions.most for stage in pipeline.stages.values() if stage.versions is not None]
    return own, {at: loss.item() for at, loss in outcome.losses.items()}, most


def _by_versions(schedule: Schedule) -> tuple[list[list[Tensor]], list[float]]:
    """Weights by stage after the last update, and the losses, from the versions of every (stage, microbatch)."""
    stages = cut(decoder(SIZE, dtype=torch.float64), schedule.stages)
    kept = [[{name: each.detach().clone() for name, each in stage.named_parameters()}] for stage in stages]
    speed = [{name: torch.zeros_like(each) for name, each in stage.named_parameters()} for stage in stages]
    inputs, target = batch(schedule.microbatches)
    losses = []
    for at in range(schedule.microbatches):
        x: Tensor = inputs[at : at + 1]
        tape = []
        for number, stage in enumerate(stages):
            version = schedule.versions[number, at]
            leaves = {name: each.clone().requires_grad_() for name, each in kept[number][version.forward].items()}
            start = x.detach().requires_grad_(x.is_floating_point())
            x = functional_call(stage, leaves, (start,))
            tape.append((start, leaves, x, kept[number][version.backward]))
        loss = cross_entropy(x, target[at])
        losses.append(loss.item())
        tape[-1] = (tape[-1][0], tape[-1][1], loss, tape[-1][3])
        gradient = torch.ones((), dtype=torch.float64)
        for number in reversed(range(len(stages))):
            start, leaves, end, behind = tape[number]
            for name, leaf in leaves.items():
                leaf.data.copy_(behind[name])
            end.backward(gradient)
            gradient = start.grad if start.grad is not None else gradient
            fresh = {}
            for name, leaf in leaves.items():
                assert leaf.grad is not None
                speed[number][name] = 0.5 * speed[number][name] + leaf.grad
                fresh[name] = kept[number][-1][name] - LR * speed[number][name]
            kept[number].append(fresh)
    return [list(each[-1].values()) for each in kept], losses


BAND = 0.1
"""How far from SGD the loss may be, as a part of it: it still falls, and gradients are up to 6 updates late."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipedream", "pipelined_backprop"])
def test_the_loss_stays_near_that_of_sgd(pool: Pool, name: str) -> None:
    """The mean of the last 40 of 200 updates, over three seeds; what is learnt is to count."""
    for seed in range(3):
        results = pool.run(_learn, make(name, RANKS, 200), seed)
        found = sum(loss for own in results for at, loss in own.items() if at >= 160) / 40
        sgd = _sgd(200, seed)
        assert sum(sgd[160:]) / 40 < 0.7 * sum(sgd[:20]) / 20
        assert abs(found / (sum(sgd[160:]) / 40) - 1) < BAND


def _counting(microbatches: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    start = torch.randint(SIZE.vocabulary, (microbatches, 1), generator=draw)
    tokens = (start + torch.arange(SIZE.length + 1)) % SIZE.vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def _learn(schedule: Schedule, seed: int) -> dict[int, float]:
    modules = cut(decoder(SIZE, seed=seed), schedule.stages)
    pipeline = Pipeline(schedule, modules, cross_entropy, optimizer=partial(torch.optim.SGD, lr=0.05))
    outcome = pipeline.step(*_counting(schedule.microbatches, seed))
    return {at: loss.item() for at, loss in outcome.losses.items()}


def _sgd(microbatches: int, seed: int) -> list[float]:
    model = nn.Sequential(*decoder(SIZE, seed=seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, target = _counting(microbatches, seed)
    losses = []
    for at in range(microbatches):
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs[at : at + 1]), target[at])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_changing_weights_need_an_optimizer_and_no_copies(pool: Pool) -> None:
    with pytest.raises(AssertionError, match="updates stash: weights change behind every backward; give an optimizer"):
        pool.run(run, replace(make("one_f_one_b", RANKS, 4), updates="stash"))
    with pytest.raises(AssertionError, match="give them as output"):
        pool.run(_run_versions, with_vocabulary(1, 1))


def test_a_stage_that_returns_no_tensors_is_named() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return {"x": x}

    with pytest.raises(ScheduleError, match="stage 3 returns dict; stages hand on a tensor"):
        Stage(3, Wrong()).forward(0, (torch.ones(2),), None)
