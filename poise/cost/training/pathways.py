"""Pathways: one controller dispatches computations to all hosts, ahead of their inputs, in one order for all devices.

Barham et al. (arXiv 2203.12533). Work on a host before a computation starts (its resources, its enqueueing) needs the
shapes of inputs and not their values, so hosts can do it at the same time: parallel asynchronous dispatch. A
collective runs on all of its devices or on none, so programs that share devices enqueue in one order: gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Dispatch = Literal["sequential", "parallel", "multi"]


def chain_s(nodes: int, compute_s: float, host_s: float, hop_s: float, dispatch: Dispatch = "parallel") -> float:
    """Seconds of `nodes` computations after one another, each on devices of another host.

    sequential: a host begins its work when the host before it has enqueued and a message has come.  parallel: one
    message from the controller begins the work of all hosts.  multi: every host has the program and needs no message.
    """
    enqueued = end = 0.0
    for node in range(nodes):
        if dispatch == "sequential":
            enqueued += hop_s + host_s
        elif not node:
            enqueued = host_s + (hop_s if dispatch == "parallel" else 0.0)
        end = max(end, enqueued) + compute_s
    return end


def masked_s(hosts: int, message_s: float, fixed_s: float) -> float:
    """The least seconds of a computation for which a controller that sends a message to each host keeps up."""
    return fixed_s + hosts * message_s


def blocked(queues: Sequence[Sequence[int]]) -> bool:
    """Whether devices never get through their queues of collectives, each of which starts on all devices at once.

    queues: for each device the numbers of programs in the order in which their collectives were enqueued there.
    """
    at = [0] * len(queues)
    while True:
        heads = {queue[place] for queue, place in zip(queues, at, strict=True) if place < len(queue)}
        ready = [
            each
            for each in heads
            if all(each not in queue[place:] or queue[place] == each for queue, place in zip(queues, at, strict=True))
        ]
        if not ready:
            return bool(heads)
        for device, queue in enumerate(queues):
            at[device] += at[device] < len(queue) and queue[at[device]] == ready[0]


def deadlocks(programs: int, devices: int, gang: bool, seed: int, rounds: int = 200) -> float:
    """The part of `rounds` in which programs that enqueue a collective on all devices block one another.

    gang: one scheduler gives all devices the same order. Otherwise each device has the order in which messages came.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    stuck = 0
    for _ in range(rounds):
        orders = [rng.permutation(programs).tolist() for _ in range(1 if gang else devices)]
        stuck += blocked(orders * devices if gang else orders)
    return stuck / rounds
