"""CPU of a training step beside torch.distributed.pipelining: the same order, stages, batch and processes.

    python bench/pipelining.py [--only NAME …] [--ranks 4] [--microbatches 8] [--hidden 64] [--rounds 15] [--json FILE]

torch runs its own class of each schedule; Poise runs the very order of operations that the class has. Both pipelines
live in the same processes and take turns of some steps each, in an order drawn anew every round. CPU is user and system
time of all threads of all ranks. The floor is the same forwards and backwards without messages. Ratios are medians of
the rounds' ratios, with quartiles; wall times depend on what else runs, and are given for orientation.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, schedules

from poise.pipeline import Kind, Schedule, make
from poise.pipeline.csv import parse_csv
from poise.runtime import Pipeline
from poise.runtime.decoder import Size, cross_entropy, cut, decoder
from poise.runtime.guard import Guard, Seat
from poise.runtime.ranks import Ranks

CLASSES = {
    "GPipe": 1, "1F1B": 1, "Interleaved1F1B": 2, "LoopedBFS": 2, "InterleavedZeroBubble": 2, "ZBVZeroBubble": 2,
    "DualPipeV": 2,
}  # fmt: skip
"""torch's schedules, and the stages of each rank."""

ONE = {"GPipe": "gpipe", "1F1B": "one_f_one_b"}
"""Those of one stage a rank, by Poise's names."""

STEPS = 3
"""In a row, before it is the others' turn."""

Step = Callable[[], object]


class Theirs:
    """torch's own schedule on this rank."""

    def __init__(self, name: str, ranks: int, count: int, modules: list[nn.Module]) -> None:
        self.name, self.count, rank, stages = name, count, dist.get_rank(), ranks * CLASSES[name]
        v = name in ("ZBVZeroBubble", "DualPipeV")
        self.own = [rank, stages - 1 - rank] if v else list(range(rank, stages, ranks))
        self.modules = {stage: modules[stage] for stage in self.own}
        made = [PipelineStage(each, at, stages, torch.device("cpu")) for at, each in self.modules.items()]
        kind: Any = schedules.get_schedule_class(name)
        self.last = stages - 1 in self.own
        self.runtime = kind(made[0] if CLASSES[name] == 1 else made, count, loss_fn=cross_entropy)

    def order(self) -> Schedule:
        """What it computes, as a schedule; a pair that may overlap is in turns, as torch runs it on a CPU."""
        if self.name in ONE:  # what these classes say of their order is for drawing
            return make(ONE[self.name], dist.get_world_size(), self.count)
        rows = self.runtime.pipeline_order
        cells = [re.findall(r"\d+[FBIW]\d+", " ".join(map(str, rows[rank]))) for rank in sorted(rows)]
        return parse_csv("\n".join(",".join(row) for row in cells) + "\n")

    def step(self, inputs: Tensor, target: Tensor) -> None:
        """One step, whose gradients are new as Poise's are."""
        for module in self.modules.values():
            module.zero_grad(set_to_none=True)
        ending: dict[str, Any] = {"target": target, "losses": []} if self.last else {}
        self.runtime.step(*([inputs] if 0 in self.own else []), return_outputs=False, **ending)


class Floor:
    """The forwards and backwards of this rank alone; where a backward is split, its two passes of autograd."""

    def __init__(self, schedule: Schedule, modules: dict[int, nn.Module], size: Size, rows: int) -> None:
        self.schedule, self.modules = schedule, modules
        self.operations = schedule.ranks[dist.get_rank()]
        self.hidden = torch.randn(rows, size.length, size.hidden)

    def step(self, inputs: Tensor, target: Tensor) -> None:
        """In the order of the schedule."""
        parts, targets = inputs.chunk(self.schedule.microbatches), target.chunk(self.schedule.microbatches)
        for module in self.modules.values():
            module.zero_grad(set_to_none=True)
        kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        for stage, kind, batch in self.operations:
            assert batch is not None
            if kind is Kind.F:
                given = self.hidden.clone().requires_grad_() if stage else parts[batch]
                made = self.modules[stage](given)
                last = stage == self.schedule.stages - 1
                kept[stage, batch] = given, cross_entropy(made, targets[batch]) if last else made
            elif kind is Kind.B or (kind is Kind.W and not stage):
                made = kept.pop((stage, batch))[1]
                made.backward(None if made.dim() == 0 else torch.ones_like(made))
            elif kind is Kind.I and stage:
                given, made = kept[stage, batch]
                torch.autograd.grad(made, given, None if made.dim() == 0 else torch.ones_like(made), retain_graph=True)
            elif kind is Kind.W:
                made = kept.pop((stage, batch))[1]
                weights = list(self.modules[stage].parameters())
                torch.autograd.grad(made, weights, None if made.dim() == 0 else torch.ones_like(made))


def rank_main(options: argparse.Namespace, seat: Seat) -> None:
    """What each rank does: all schedules, one after the other."""
    torch.set_num_threads(1)
    found = {}
    with Guard(seat, timeout_s=300) as guard:
        for name in options.only:
            line = measure(name, options, guard)
            if seat.rank == 0:
                print(line.pop("text"), flush=True)
                found[name] = line
        if seat.rank == 0 and options.json:
            options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


def measure(name: str, options: argparse.Namespace, guard: Guard) -> dict[str, Any]:
    """Rounds of all three, and the table's line: a collective."""
    ranks, count, stages = options.ranks, options.microbatches, options.ranks * CLASSES[name]
    size = Size(layers=max(stages, 8), hidden=options.hidden, heads=4, vocabulary=256, length=options.length)
    theirs = Theirs(name, ranks, count, cut(decoder(size), stages))
    schedule = theirs.order()
    modules = cut(decoder(size), stages)
    ours = Pipeline(schedule, modules, cross_entropy, guard=guard)
    floor = Floor(schedule, dict(enumerate(cut(decoder(size), stages))), size, options.rows)
    tokens = torch.randint(size.vocabulary, (count * options.rows, size.length + 1), generator=_draw(5))
    inputs, target = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    steps: dict[str, Step] = {
        key: partial(run, inputs, target)
        for key, run in (("poise", ours.step), ("torch", theirs.step), ("floor", floor.step))
    }
    guard.at("the steps of another runtime")
    for step in steps.values():
        step()
    _agree(ours, theirs)
    draw, rounds = Random(7), []
    for _ in range(options.rounds):
        order = sorted(steps, key=lambda _: draw.random())
        rounds.append({key: turn(steps[key]) for key in order})
    return line(name, rounds)


def turn(step: Step) -> tuple[float, float]:
    """CPU milliseconds of a step, of all ranks together, and wall milliseconds."""
    dist.barrier()
    began, spent = perf_counter(), process_time()
    for _ in range(STEPS):
        step()
    took = torch.tensor([process_time() - spent, perf_counter() - began], dtype=torch.float64)
    wall = took[1:].clone()
    dist.all_reduce(took)
    dist.all_reduce(wall, dist.ReduceOp.MAX)
    return took[0].item() * 1000 / STEPS, wall.item() * 1000 / STEPS


def line(name: str, rounds: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Medians, the ratio with its quartiles, and how they read."""
    cpu = {key: median(each[key][0] for each in rounds) for key in rounds[0]}
    wall = {key: median(each[key][1] for each in rounds) for key in rounds[0]}
    ratios = [each["poise"][0] / each["torch"][0] for each in rounds]
    low, middle, high = quantiles(ratios, n=4)
    text = (
        f"{name:22}{cpu['floor']:8.1f}{cpu['poise']:8.1f}{cpu['torch']:8.1f}{middle:8.3f}  {low:.3f}–{high:.3f}"
        f"{wall['poise']:9.1f}{wall['torch']:8.1f}{os.getloadavg()[0]:7.1f}"
    )
    return {"text": text, "cpu_ms": cpu, "wall_ms": wall, "ratio": middle, "low": low, "high": high}


def _agree(ours: Pipeline, theirs: Theirs) -> None:
    """Both have the same gradients, or nothing is compared."""
    for number, module in theirs.modules.items():
        pairs = zip(ours.stages[number].module.parameters(), module.parameters(), strict=True)
        for mine, other in pairs:
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)


def _draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(CLASSES), choices=list(CLASSES), metavar="NAME")
    usual = {"ranks": 4, "microbatches": 8, "hidden": 64, "length": 64, "rows": 2, "rounds": 15}
    for name, value in usual.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    options = parser.parse_args()
    print(
        f"torch {torch.__version__}, {options.ranks} ranks on {os.cpu_count()} cores, {options.microbatches} "
        f"microbatches of {options.rows} x {options.length} tokens, hidden {options.hidden}, gloo; "
        f"ms of a step, CPU of all ranks\n"
        f"{'':22}{'floor':>8}{'poise':>8}{'torch':>8}{'ratio':>8}  {'quartiles':11}"
        f"{'poise':>9}{'torch':>8}{'load':>7}\n"
        f"{'':22}{'CPU':>8}{'CPU':>8}{'CPU':>8}{'':21}{'wall':>9}{'wall':>8}",
        flush=True,
    )
    Ranks(options.ranks, partial(rank_main, options), timeout_s=600).wait()


if __name__ == "__main__":
    main()
