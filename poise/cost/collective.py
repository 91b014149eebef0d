"""Collectives in the α-β model: a message of S bytes between two ranks takes α + S/β.

Hockney, "The communication challenge for MPP" (Parallel Computing 20, 1994) for the model; Thakur, Rabenseifner and
Gropp, "Optimization of collective communication operations in MPICH" (IJHPCA 19, 2005), sections 4.1-4.5, for the ring
forms; the one- and two-shot forms are those of the engines' own kernels, where every rank reads its peers directly over
a switch (vLLM `custom_all_reduce`, TensorRT-LLM `allReduceKernels`). Each form is a straight line in bytes.
"""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """What joins the ranks: `latency_s` before the first byte arrives, `bandwidth` in bytes/s one way per rank.

    direct: every rank reaches every other at full bandwidth (a switch), so that peers can read one another at once.
    """

    latency_s: float
    bandwidth: float
    direct: bool = True


class Line(NamedTuple):
    """Seconds as `fixed_s + bytes × per_byte_s`."""

    fixed_s: float = 0.0
    per_byte_s: float = 0.0

    def at(self, size: float) -> float:
        """Seconds for `size` bytes."""
        return self.fixed_s + size * self.per_byte_s


def p2p(link: Link) -> Line:
    """One message: α + S/β."""
    return Line(link.latency_s, 1 / link.bandwidth)


def ring_all_reduce(ranks: int, link: Link) -> Line:
    """Sum of S bytes left on every rank by a ring: 2(n−1)·α + 2(n−1)/n·S/β (Thakur 2005, 4.5)."""
    return Line(2 * (ranks - 1) * link.latency_s, 2 * (ranks - 1) / (ranks * link.bandwidth))


def one_shot_all_reduce(ranks: int, link: Link) -> Line:
    """Every rank reads the S bytes of all its peers and adds them: α + (n−1)·S/β."""
    return Line(link.latency_s if ranks > 1 else 0.0, (ranks - 1) / link.bandwidth)


def two_shot_all_reduce(ranks: int, link: Link) -> Line:
    """A direct reduce-scatter, then a direct all-gather: 2α + 2(n−1)/n·S/β."""
    return Line(2 * link.latency_s if ranks > 1 else 0.0, 2 * (ranks - 1) / (ranks * link.bandwidth))


def far_all_reduce(ranks: int, inside: int, near: Link, far: Link) -> Line:
    """Over hosts of `inside` ranks each: scattered sums inside, a ring of hosts over each part, gathered inside.

    2α + 2(i−1)/i·S/β inside (as `two_shot_all_reduce`) and 2(h−1)·α + 2(h−1)/h·(S/i)/β between h = n/i hosts: what
    NCCL and engines do, for a ring of all ranks would cross hosts as often with nothing gained.
    """
    local, hosts = two_shot_all_reduce(inside, near), ring_all_reduce(ranks // inside, far)
    return Line(local.fixed_s + hosts.fixed_s, local.per_byte_s + hosts.per_byte_s / inside)


def all_reduce_forms(ranks: int, link: Link) -> tuple[Line, ...]:
    """The forms among which an engine picks the cheaper by size: direct ones on a switch, the ring elsewhere."""
    if link.direct:
        return one_shot_all_reduce(ranks, link), two_shot_all_reduce(ranks, link)
    return (ring_all_reduce(ranks, link),)


def all_reduce(ranks: int, size: float, link: Link) -> float:
    """Seconds of the cheapest all-reduce of `size` bytes; 0 for one rank."""
    return min(form.at(size) for form in all_reduce_forms(ranks, link))


def all_gather(ranks: int, link: Link) -> Line:
    """S bytes, 1/n from each rank, left on every rank: α (direct) or (n−1)·α (ring), plus (n−1)/n·S/β (Thakur, 4.1)."""
    hops = ranks - 1 if not link.direct else min(ranks - 1, 1)
    return Line(hops * link.latency_s, (ranks - 1) / (ranks * link.bandwidth))


def reduce_scatter(ranks: int, link: Link) -> Line:
    """S bytes on every rank, 1/n of their sum left on each: `all_gather` backwards, at its cost (Thakur, 4.2)."""
    return all_gather(ranks, link)


def all_to_all(ranks: int, link: Link) -> Line:
    """Every rank sends S bytes, 1/n to each: α (direct) or (n−1)·α (pairwise), plus (n−1)/n·S/β (Thakur, 4.4)."""
    return all_gather(ranks, link)
