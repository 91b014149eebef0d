"""SKIP: a coupled CPU and GPU win at large batches and wait for launches at small ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import seconds
from poise.cost import Roofline
from poise.cost.launch import bound_s, played, transition

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
        Answer(
            "overtakes",
            f"at {BATCHES[-1]}: "
            + ", ".join(f"{gain:.2f} times {name}" for name, gain in gains.items())
            + f"; overtakes {', '.join(f'{name} {count} times' for name, count in crossings.items())}",
            all(gain > 1 for gain in gains.values())
            and all(count == 1 for count in crossings.values())
            and all(coupled.time_s(1) > systems[name].time_s(1) for name in others),
        ),
        Answer(
            "bound",
            ", ".join(f"{name}: bound by the device from {knee} on" for name, knee in knees.items()),
            all(knees["GH200"] > knees[name] for name in others),
        ),
        Answer("TKLQT", "; ".join(f"{name}: {one:.2f}, {two:.0f} times" for name, (one, two) in flat.items()), rising),
    ]
    lines = {name: [Point(batch, each.time_s(batch)) for batch in BATCHES] for name, each in systems.items()}
    return Findings(criteria, [Curve("Prefill of a batch", "batch", "seconds", lines)])
