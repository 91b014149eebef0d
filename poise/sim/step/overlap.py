"""A step of data parallelism, weight by weight: how much of its communication hides under computations."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from poise.pipeline import B, F, Schedule
from poise.pipeline.lower import program_of
from poise.program import Lane, Program, Task
from poise.program.passes import gathered, reduced, replicated
from poise.program.passes.buckets import MIB
from poise.program.passes.data_parallel import summed
from poise.program.passes.simple_fsdp import wrapped
from poise.sim.links import Wiring
from poise.sim.program import Clock, simulate


class Weights(NamedTuple):
    """Matrices in the order of the forward: values of each, and FLOPs of each for a token's forward."""

    values: list[float]
    flops: list[float]


class Decoder(NamedTuple):
    """The shape of a decoder; `kv`: K and V beside Q, `gated`: three matrices in an MLP instead of two."""

    layers: int
    hidden: int
    ffn: int
    vocab: int
    kv: float = 1.0
    gated: bool = False

    def weights(self) -> Weights:
        """An embedding, then for each layer its norms, Q, K, V, O, and the matrices of its MLP."""
        square = float(self.hidden * self.hidden)
        wide = [float(self.hidden * self.ffn)] * (3 if self.gated else 2)
        matrices = [square, square * self.kv, square * self.kv, square, *wide]
        values = [float(self.vocab * self.hidden), *(self.layers * [2.0 * self.hidden, *matrices])]
        return Weights(values, [0.0, *(self.layers * [0.0, *(2 * each for each in matrices)])])


class Machine(NamedTuple):
    """Devices that compute at `flops` a second; links in bytes/s; seconds before a collective's first byte."""

    flops: float = 4e14
    per_node: int = 8
    ranks_per_nic: int = 1
    scaleup_bw: float = 450e9
    scaleout_bw: float = 50e9
    latency_s: float = 20e-6


V100 = Machine(8e12, 8, 8, 130e9, 12.5e9, 1e-3)
"""In fp32; 8 share a NIC of 100 Gb/s."""
H100 = Machine()


class Overlap(NamedTuple):
    """Of one rank: seconds of the step and of its computations, collectives, and bytes that it sends."""

    step_s: float
    computing_s: float
    collectives: int
    sent_bytes: float

    def exposed(self) -> float:
        """The part of the step in which nothing is computed."""
        return 1 - self.computing_s / self.step_s


def ddp(
    model: Decoder, tokens: int, replicas: int, *, bucket_mb: float = 25.0, first_mb: float = 1.0,
    microbatches: int = 1, accumulate: bool = True, bytes: float = 4.0, machine: Machine = V100,
) -> Overlap:  # fmt: skip
    """`replicas` whose gradients are summed in buckets: PyTorch DDP.

    tokens: of a replica's microbatch.  In a ring all servers are alike: of more than two, two are simulated.
    """
    weights = model.weights()
    alone = _alone(weights, microbatches)
    sizes = [bytes * each for each in weights.values]
    cap, first = bucket_mb * MIB, min(bucket_mb, first_mb) * MIB
    program = summed(alone, replicas, sizes, None, cap, first, accumulate)
    return _run(replicated(program, min(replicas, 2 * machine.per_node)), weights, tokens, machine)


def fsdp(
    model: Decoder, tokens: int, ranks: int, *, merge: bool = True, block: int = 1, memory_gb: float = inf,
    bytes: float = 2.0, gradient_bytes: float = 4.0, machine: Machine = H100,
) -> Overlap:  # fmt: skip
    """Weights sharded over `ranks`, gathered one run ahead, `block` of them together; `merge`: by SimpleFSDP's rule.

    memory_gb: for the whole weights of two buckets.  bytes, gradient_bytes: of a value that is gathered or scattered.
    In a ring all servers are alike: of more than two, two are simulated.
    """
    weights = _blocks(model.weights(), block)
    part = (ranks - 1) / ranks
    whole = [bytes * each for each in weights.values]
    program = gathered(_alone(weights, 1), [each * part for each in whole], whole)
    program = reduced(program, [each * gradient_bytes * part for each in weights.values], "run", "reduce_scatter")
    speed = machine.scaleup_bw if ranks <= machine.per_node else machine.scaleout_bw

    def seconds(task: Task) -> float:
        return _seconds(task, weights, tokens, machine) + (task.work / speed if task.group else 0.0)

    if merge:
        program = wrapped(program, seconds, memory_gb * 1e9)
    return _run(replicated(program, min(ranks, 2 * machine.per_node)), weights, tokens, machine)


def _blocks(weights: Weights, size: int) -> Weights:
    """The embedding alone, all others `size` together."""
    rows = [
        [sum(row[at : at + size]) for at in range(1, len(row), size)] for row in (weights.values, weights.flops)
    ]  # fmt: skip
    return Weights([weights.values[0], *rows[0]], [weights.flops[0], *rows[1]])


def _alone(weights: Weights, microbatches: int) -> Program:
    """One device; every weight is a stage."""
    stages = range(len(weights.values))
    row = [
        op
        for batch in range(microbatches)
        for op in (*(F(stage, batch) for stage in stages), *(B(stage, batch) for stage in reversed(stages)))
    ]
    return program_of(Schedule.of([row]))


def _seconds(task: Task, weights: Weights, tokens: int, machine: Machine) -> float:
    """Of a computation, whose backward takes twice its forward, and before the first byte of a collective."""
    if task.kind in ("F", "B"):
        flops = weights.flops[int(task.arg[0])] * tokens
        return flops / machine.flops * (1 if task.kind == "F" else 2)
    return machine.latency_s if task.group else 0.0


def _run(program: Program, weights: Weights, tokens: int, machine: Machine) -> Overlap:
    wiring = Wiring.nodes(
        program.ranks, machine.per_node, scaleup_bw=machine.scaleup_bw, scaleout_bw=machine.scaleout_bw,
        ranks_per_nic=machine.ranks_per_nic,
    )  # fmt: skip
    clock = Clock.of(program, wiring, lambda task: _seconds(task, weights, tokens, machine))
    found = simulate(program, clock, wiring)
    own: Sequence[Task] = [task for lane in (Lane(0, "sync"), Lane(0, "gather")) for task in program.rows.get(lane, ())]
    return Overlap(found.makespan_s, found.busy_s[0], len(own), sum(task.work for task in own))
