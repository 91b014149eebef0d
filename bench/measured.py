"""Steps as measured beside steps as simulated: time of a step, and the order of tasks on every lane.

    python bench/measured.py [--kernel wait] [--ranks 4]   # 4 ranks whose stages wait as for a device, on any machine
    python bench/measured.py --kernel work --ranks 2       # real layers; give each rank a core of its own

For every schedule that updates once, steps are recorded in turn with those of the others. The even ones give the costs
(`costs_of`), the odd ones the measured time, their median; of both the slower half is left out, which other work on the
machine delayed. The simulation is that of the same schedule with these costs.
With `work` stages compute, so ranks need a core each: more ranks than cores compute one after the other, and a schedule
shows nothing. With `wait` every forward and backward sleeps for a fixed time: what is measured is then the runtime, its
messages, its waiting and its order, and not computing.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

import torch
from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.experiment.rank_correlation import spearman
from poise.pipeline import Schedule, make, names
from poise.runtime import Pipeline
from poise.runtime.decoder import Size, cross_entropy, cut, decoder
from poise.runtime.guard import Guard, Seat
from poise.runtime.program.operations import op_of
from poise.runtime.ranks import Ranks
from poise.runtime.recording import Recording, costs_of

F_S, B_S, W_S = 0.020, 0.022, 0.012
"""Of the whole model for a microbatch and rank: about the proportions of a transformer's forward, I and W."""

LAYERS = 16


class Waits(torch.autograd.Function):
    """The identity, which takes time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward_s: float, backward_s: float) -> Tensor:
        """Takes the first time."""
        ctx.backward_s = backward_s
        sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Takes the second."""
        sleep(ctx.backward_s)
        return gradients[0], None, None


class Device(nn.Module):
    """A stage that takes a share of the times above; its weight gradient is a pass of its own."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.weight = share, nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Two ways to the output, one of them from the weight."""
        found: Tensor = Waits.apply(x, F_S * self.share, B_S * self.share)
        return found + Waits.apply(self.weight, 0.0, W_S * self.share)


def schedules(ranks: int, count: int, only: list[str]) -> dict[str, Schedule]:
    """All that update once and need no shards of the output layer, by name."""
    found = {}
    for name in only or names():
        try:
            made = make(name, ranks, count)
        except ScheduleError:
            continue  # not for so many ranks
        if made.updates == "flush" and not made.barriers and (made.stages <= LAYERS):
            found[name] = made
    return found


def rank_main(options: argparse.Namespace, found: dict[str, Schedule], seat: Seat) -> None:
    """Record all, in turn."""
    torch.set_num_threads(1)
    with Guard(seat, timeout_s=300) as guard:
        made = {name: pipeline(schedule, options, guard) for name, schedule in found.items()}
        steps: dict[str, list[Recording]] = {name: [] for name in found}
        for _ in range(1 + 2 * options.rounds):
            for name, (each, inputs, target) in made.items():
                steps[name].append(each.record(inputs, target)[1])
        if seat.rank == 0:
            table(made, steps, options)


def pipeline(schedule: Schedule, options: argparse.Namespace, guard: Guard) -> tuple[Pipeline, Tensor, Tensor]:
    """A schedule's stages, and their batch."""
    count = schedule.microbatches
    if options.kernel == "wait":
        stages: list[nn.Module] = [Device(options.ranks / schedule.stages) for _ in range(schedule.stages)]
        made = Pipeline(schedule, stages, nn.functional.mse_loss, guard=guard)
        return made, torch.ones(count, 8), torch.ones(count, 8)
    size = Size(layers=LAYERS, hidden=options.hidden, heads=4, vocabulary=256, length=128)
    tokens = torch.randint(size.vocabulary, (count, size.length + 1), generator=torch.Generator().manual_seed(1))
    made = Pipeline(schedule, cut(decoder(size), schedule.stages), cross_entropy, guard=guard)
    return made, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def table(made: dict[str, Any], steps: dict[str, list[Recording]], options: argparse.Namespace) -> None:
    """A line for each schedule, and what they say together."""
    print(f"{'schedule':22}{'measured ms':>12}{'simulated':>10}{'measured/simulated':>20}{'  order'}")
    rows = {}
    for name, recordings in steps.items():
        costs, held_out = costs_of(fast(recordings[1::2])), fast(recordings[2::2])
        simulated = float(_timed(recordings[0].schedule, costs))
        measured = median(each.makespan_ms for each in held_out)
        wrong = sum(disorder(made[name][0], each) for each in held_out)
        rows[name] = {"measured_ms": measured, "simulated_ms": simulated, "out_of_order": wrong}
        order = "as simulated" if not wrong else f"{wrong} tasks elsewhere"
        print(f"{name:22}{measured:12.1f}{simulated:10.1f}{measured / simulated:20.3f}  {order}")
    ratios = [row["measured_ms"] / row["simulated_ms"] for row in rows.values()]
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    pairs = [(row["measured_ms"], row["simulated_ms"]) for row in rows.values()]
    print(
        f"{near} of {len(rows)} within 10 %, median ratio {median(ratios):.3f}, worst {max(ratios):.3f}; "
        f"Spearman {spearman(*zip(*pairs, strict=True)):.3f}; load {os.getloadavg()[0]:.1f}"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def fast(recordings: list[Recording]) -> list[Recording]:
    """The faster half."""
    return sorted(recordings, key=lambda each: each.makespan_ms)[: (len(recordings) + 1) // 2]


def _timed(schedule: Schedule, costs: Any) -> Any:
    from poise.pipeline import time

    return time(schedule, costs).makespan


def disorder(made: Pipeline, recording: Recording) -> int:
    """How many operations of all lanes did not start where the Program has them."""
    wrong = 0
    for lane, row in made.program.rows.items():
        named = [str(op) for task in row if (op := op_of(made.schedule, task)) is not None]
        wanted = set(named)
        events = sorted((each for each in recording.ranks[lane.rank] if each.op in wanted), key=lambda each: each.start)
        wrong += sum(each.op != name for each, name in zip(events, named, strict=True))
    return wrong


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=["wait", "work"], default="wait")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="schedules (default: all)")
    for name, usual in (("ranks", 4), ("microbatches", 8), ("rounds", 5), ("hidden", 256)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    options = parser.parse_args()
    found = schedules(options.ranks, options.microbatches, options.only)
    print(
        f"{options.kernel}: {options.ranks} ranks on {os.cpu_count()} cores, {options.microbatches} microbatches; "
        f"torch {torch.__version__}, gloo",
        flush=True,
    )
    Ranks(options.ranks, partial(rank_main, options, found), timeout_s=600).wait()


if __name__ == "__main__":
    main()
