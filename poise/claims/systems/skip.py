"""SKIP: a coupled CPU and GPU win at large batches and wait for launches at small ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import seconds
from poise.cost import Roofline
from poise.cost.launch import bound_s, played, transition

CLAIM = Claim(
    system="SKIP and TKLQT",
    paper="arXiv 2504.11750",
    year=2025,
    slot="cost",
    policies=("launch",),
    headline="GH200 is 1.9 to 2.7 times as fast in prefill of large batches, yet CPU-bound up to 4 times larger ones",
    conditions="Llama-3.2-1B in eager mode; PCIe A100 and H100 with x86 hosts, GH200 with its own CPU; growing batches",
    here="the same model, prompts of 128 tokens, roofline steps without host time; 400 kernels of equal length (25 a "
    "layer); a launch takes 5 µs on x86 and half as long again on GH200's cores: these three are chosen",
    trust="abstract",
)

KERNELS, PROMPT, BATCHES = 400, 128, tuple(2**each for each in range(9))


@dataclass(frozen=True, slots=True)
class System:
    """A device with its host: seconds of a launch, and times what its steps cost by the roofline."""

    launch_s: float
    estimator: Estimator

    def work_s(self, batch: int) -> float:
        """The device's part of a prefill."""
        return seconds(self.estimator.step(StepShape(0, (Chunk(PROMPT, 0),) * batch)).base)

    def time_s(self, batch: int) -> float:
        """The whole iteration."""
        return bound_s(self.work_s(batch), KERNELS, self.launch_s)

    def tklqt_s(self, batch: int) -> float:
        """Of an iteration that is played through."""
        return played([self.work_s(batch) / KERNELS] * KERNELS, self.launch_s).tklqt_s


def _systems() -> dict[str, System]:
    hosts = {"A100-PCIe": ("A100-PCIe-80GB", 5e-6), "H100-PCIe": ("H100-PCIe-80GB", 5e-6), "GH200": ("GH200", 7.5e-6)}
    cost = Roofline(cpu_step_s=0.0, cpu_sequence_s=0.0)
    return {
        name: System(launch_s, cost.build(Pool(model("llama-3.2-1b"), device(kind))))
        for name, (kind, launch_s) in hosts.items()
    }


def measure(bench: Bench) -> Findings:
    """Batches × systems; nothing is drawn, so there is nothing to shorten."""
    systems = _systems()
    knees = {name: transition(each.work_s, KERNELS, each.launch_s) for name, each in systems.items()}
    coupled = systems["GH200"]
    gains = {name: each.time_s(BATCHES[-1]) / coupled.time_s(BATCHES[-1]) for name, each in systems.items()}
    del gains["GH200"]
    others = [name for name in systems if name != "GH200"]
    crossings = {
        name: sum(
            (systems[name].time_s(one) < coupled.time_s(one)) != (systems[name].time_s(two) < coupled.time_s(two))
            for one, two in pairwise(BATCHES)
        )
        for name in others
    }
    flat = {
        name: (each.tklqt_s(max(knees[name] - 1, 1)) / each.tklqt_s(1), each.tklqt_s(4 * knees[name]) / each.tklqt_s(1))
        for name, each in systems.items()
    }
    rising = all(one < 1.01 and two > 10 for one, two in flat.values())
    criteria = [
        Criterion(
            "GH200 is faster at the largest batch and slower at the smallest, and overtakes each other system once",
            "1.9 to 2.7 times as fast at large batches, slower at small ones",
            f"at {BATCHES[-1]}: " + ", ".join(f"{gain:.2f} times {name}" for name, gain in gains.items())
            + f"; overtakes {', '.join(f'{name} {count} times' for name, count in crossings.items())}",
            all(gain > 1 for gain in gains.values()) and all(count == 1 for count in crossings.values())
            and all(coupled.time_s(1) > systems[name].time_s(1) for name in others),
            headline=True,
        ),
        Criterion(
            "GH200 is bound by launches up to larger batches than the others", "up to 4 times larger",
            ", ".join(f"{name}: bound by the device from {knee} on" for name, knee in knees.items()),
            all(knees["GH200"] > knees[name] for name in others), headline=True,
        ),
        Criterion(
            "TKLQT is flat below the transition and at least ten times as long at four times its batch",
            "flat, then rising", "; ".join(f"{name}: {one:.2f}, {two:.0f} times" for name, (one, two) in flat.items()),
            rising, why="" if rising else "on PCIe a single prompt outlasts its launches here: nothing is flat",
        ),
    ]  # fmt: skip
    lines = {name: [Point(batch, each.time_s(batch)) for batch in BATCHES] for name, each in systems.items()}
    return Findings(criteria, [Curve("Prefill of a batch", "batch", "seconds", lines)])
