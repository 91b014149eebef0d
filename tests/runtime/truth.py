"""One process that trains without a pipeline, and the comparison with it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

from poise.pipeline import Schedule
from poise.pipeline.schedule import Path
from poise.runtime import execute
from poise.runtime.decoder import Size, cross_entropy, cut, decoder

SIZE = Size(layers=8, hidden=32, heads=4, vocabulary=64, length=32)


def batch(microbatches: int, size: Size = SIZE) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(7)
    tokens = torch.randint(size.vocabulary, (microbatches, size.length + 1), generator=draw)
    return tokens[:, :-1], tokens[:, 1:]


def alone(schedule: Schedule) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of one process, named as in the whole model; each microbatch passes what is on its path."""
    return _alone(schedule.stages, schedule.microbatches, schedule.paths)


@lru_cache(maxsize=16)
def _alone(stages: int, microbatches: int, paths: tuple[Path, ...] | None) -> tuple[float, dict[str, Tensor]]:
    modules, names = _model(stages)
    inputs, target = batch(microbatches)
    losses = []
    for at, path in enumerate(paths or [tuple(range(stages))] * microbatches):
        model = nn.Sequential(*(modules[stage] for stage in path))
        losses.append(cross_entropy(model(inputs[at : at + 1]), target[at]))
    loss = torch.stack(losses).mean()
    loss.backward()
    weights = [weight for module in modules for weight in module.parameters()]
    return loss.item(), {names[id(weight)]: weight.grad for weight in weights if weight.grad is not None}


def _model(stages: int) -> tuple[list[nn.Module], dict[int, str]]:
    """The stages, and the name of every weight in the whole model by its identity."""
    parts = decoder(SIZE, dtype=torch.float64)
    return cut(parts, stages), {id(each): name for name, each in nn.Sequential(*parts).named_parameters()}


def run(schedule: Schedule) -> tuple[dict[int, float], dict[str, Tensor], list[str]]:
    """On a rank: losses, gradients under the names of the whole model, and the operations done."""
    rank, ranks = torch.distributed.get_rank(), len(schedule.ranks)
    modules, names = _model(schedule.stages)
    output, found = None, {}
    if schedule.barriers:
        head = modules[-1][-1]  # type: ignore[index]
        modules[-1][-1] = head.norm  # type: ignore[index]
        rows = SIZE.vocabulary // ranks
        output = nn.Linear(SIZE.hidden, rows, bias=False, dtype=torch.float64)
        output.weight.data.copy_(head.out.weight.data[rank * rows : (rank + 1) * rows])
    outcome = execute(schedule, modules, batch(schedule.microbatches), cross_entropy, output=output)
    own = [modules[stage] for stage, homes in enumerate(schedule.homes) if rank in homes]
    found = {names[id(w)]: w.grad for module in own for w in module.parameters() if w.grad is not None}
    if output is not None and output.weight.grad is not None:
        found[f"{names[id(head.out.weight)]}/{rank}"] = output.weight.grad
    return {at: loss.item() for at, loss in outcome.losses.items()}, found, list(map(str, outcome.done))


def error(schedule: Schedule, runs: list[tuple[dict[int, float], dict[str, Tensor], list[str]]]) -> float:
    """The largest difference of loss or gradient from one process; every weight of every copy and shard is looked at.

    The gradient of a weight that no microbatch meets is none, or zero.
    """
    loss, gradients = alone(schedule)
    losses = {at: each for own, _, _ in runs for at, each in own.items()}
    assert sorted(losses) == list(range(schedule.microbatches))
    worst = abs(sum(losses.values()) / schedule.microbatches - loss)
    seen = set()
    for _, found, _ in runs:
        for name, gradient in found.items():
            whole, _, shard = name.partition("/")
            true = gradients[whole].chunk(len(runs))[int(shard)] if shard else gradients[whole]
            worst = max(worst, float((gradient - true).abs().max()))
            seen.add(whole)
    assert seen == set(gradients)
    return worst
