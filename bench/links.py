"""Print how fast a training step is simulated on shared links: tasks per CPU second, in turn with `simulate_step`.

    python bench/links.py                            # p, m = 32,256: four schedules, under a minute
    python bench/links.py --sizes 8,64 --repeat 9
    python bench/links.py --floor 300000             # ends with an error where the median of `simulate` is below
    python bench/links.py --against DIR              # `simulate_step` of another checkout as well

Tasks are those of the Program: computations, sends and receives. *simulate* runs a Program that is there, *program* is
making and numbering it, *simulate_step* all of it from the schedule on. All are measured in turn in one process, with
messages of 64 MB between nodes of 8 ranks, which share NICs; a rate is the median of the rounds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from peers.process import load_average

from poise.pipeline import Costs, Schedule, make
from poise.sim.step import Traffic, Wiring, simulate_step

ROOT = Path(__file__).resolve().parents[1]
SCHEDULES = ("one_f_one_b", "zb_h1", "interleaved", "zb_v")
COSTS, TRAFFIC = Costs.of("0.01", "0.01", "0.01"), Traffic(message_bytes=64e6)


def wiring(ranks: int) -> Wiring:
    """Nodes of 8 ranks, two of which share a NIC."""
    return Wiring.nodes(ranks, 8, scaleup_bw=450e9, scaleout_bw=50e9, ranks_per_nic=2, latency_s=(3e-6, 8e-6))


def spent(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def step(schedule: Schedule) -> float:
    """CPU seconds of `simulate_step`."""
    links = wiring(len(schedule.ranks))
    return spent(lambda: simulate_step(schedule, COSTS, TRAFFIC, links))


def here(name: str, ranks: int, microbatches: int, repeat: int, other: Path | None) -> float:
    """A line for one schedule. Returns the rate of `simulate`."""
    from poise.sim.program import simulate
    from poise.sim.step.simulate import step_clock, step_program

    schedule, links = make(name, ranks, microbatches), wiring(ranks)
    program = step_program(schedule, TRAFFIC)
    clock = step_clock(program, schedule, COSTS, TRAFFIC, links)
    tasks = len(program.index.tasks)
    rows = []
    for _ in range(repeat):
        alone = spent(lambda: simulate(program, clock, links))
        made = spent(lambda: step_program(schedule, TRAFFIC).index)
        there = None if other is None else elsewhere(other, name, ranks, microbatches)
        rows.append((alone, made, step(schedule), there))
    rates = [tasks / median(row[at] for row in rows) for at in range(3)]  # type: ignore[type-var]
    line = f"{name:14}{tasks:10,}" + "".join(f"{rate:16,.0f}" for rate in rates)
    if other is not None:
        line += f"{tasks / median(row[3] for row in rows if row[3]):16,.0f}"
    print(line, flush=True)
    return rates[0]


def elsewhere(root: Path, name: str, ranks: int, microbatches: int) -> float:
    """CPU seconds of `simulate_step` of another checkout, in a process of its own."""
    command = [sys.executable, __file__, "--seconds", name, "--sizes", f"{ranks},{microbatches}"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(root)}
    )
    return float(done.stdout)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="How fast a step is simulated on shared links.")
    parser.add_argument("--sizes", default="32,256", metavar="P,M", help="ranks and microbatches (default: 32,256)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds, for medians (default: 5)")
    parser.add_argument("--floor", type=float, default=0.0, metavar="RATE", help="least tasks per CPU second")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--seconds", metavar="SCHEDULE", help="print the CPU seconds of `simulate_step` alone")
    given = parser.parse_args()
    ranks, microbatches = map(int, given.sizes.split(","))
    if given.seconds:
        schedule = make(given.seconds, ranks, microbatches)
        print(min(step(schedule) for _ in range(2)))
        return
    loads = [os.getloadavg()[0]]
    there = f"{'there':>16}" if given.against else ""
    print(f"{'tasks/CPU s':14}{'tasks':>10}{'simulate':>16}{'program':>16}{'simulate_step':>16}{there}")
    other = given.against.resolve() if given.against else None
    found = [here(name, ranks, microbatches, given.repeat, other) for name in SCHEDULES]
    loads.append(os.getloadavg()[0])
    print(f"{load_average(loads)}, medians of {given.repeat}; p = {ranks}, m = {microbatches}")
    if min(found) < given.floor:
        raise SystemExit(f"simulate: {min(found):,.0f} tasks per CPU second, less than {given.floor:,.0f}")


if __name__ == "__main__":
    main()
