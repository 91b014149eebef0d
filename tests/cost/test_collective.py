"""Collectives against rings and reads played out message by message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.cost.collective import (
    Line,
    Link,
    all_gather,
    all_reduce,
    all_to_all,
    far_all_reduce,
    one_shot_all_reduce,
    p2p,
    reduce_scatter,
    ring_all_reduce,
    two_shot_all_reduce,
)

ranks = st.integers(2, 16)
sizes = st.floats(1, 1e9)
links = st.builds(Link, st.floats(1e-7, 1e-4), st.floats(1e9, 1e12), st.booleans())


def ring(n: int, size: float, link: Link) -> float:
    """Play a ring all-reduce: piece p holds the ranks summed into it; each round every rank passes one piece on."""
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    seconds = 0.0
    for turn in range(2 * (n - 1)):
        sent = [(rank, (rank - turn) % n, set(held[rank][(rank - turn) % n])) for rank in range(n)]
        for rank, piece, parts in sent:
            held[(rank + 1) % n][piece] |= parts
        seconds += p2p(link).at(size / n)
    assert all(parts == set(range(n)) for rank in held for parts in rank)
    return seconds


@given(ranks, sizes, links)
@settings(deadline=None)
def test_ring_all_reduce_is_the_ring_played_out(n: int, size: float, link: Link) -> None:
    assert ring_all_reduce(n, link).at(size) == pytest.approx(ring(n, size, link))


@given(ranks, sizes, links)
@settings(deadline=None)
def test_a_ring_all_reduce_is_a_scatter_and_a_gather(n: int, size: float, link: Link) -> None:
    far = link._replace(direct=False)
    both = reduce_scatter(n, far).at(size) + all_gather(n, far).at(size)
    assert ring_all_reduce(n, far).at(size) == pytest.approx(both)


@given(ranks, sizes, links)
@settings(deadline=None)
def test_direct_forms(n: int, size: float, link: Link) -> None:
    near = link._replace(direct=True)
    peers = sum(size / near.bandwidth for _ in range(n - 1))  # a rank reads every peer's copy, one link in
    assert one_shot_all_reduce(n, near).at(size) == pytest.approx(near.latency_s + peers)
    halves = reduce_scatter(n, near).at(size) + all_gather(n, near).at(size)
    assert two_shot_all_reduce(n, near).at(size) == pytest.approx(halves)
    assert all_to_all(n, near).at(size) <= all_to_all(n, near._replace(direct=False)).at(size)


@given(ranks, sizes, links)
@settings(deadline=None)
def test_an_all_reduce_over_hosts_scatters_inside_before_it_crosses(n: int, size: float, link: Link) -> None:
    near, far = link._replace(direct=True), link._replace(direct=False, bandwidth=link.bandwidth / 8)
    found = far_all_reduce(8 * n, 8, near, far).at(size)
    assert found == pytest.approx(two_shot_all_reduce(8, near).at(size) + ring_all_reduce(n, far).at(size / 8))
    assert found < ring_all_reduce(8 * n, far).at(size)


@given(ranks, sizes, links)
@settings(deadline=None)
def test_all_reduce_takes_the_cheaper_form(n: int, size: float, link: Link) -> None:
    forms = one_shot_all_reduce(n, link), two_shot_all_reduce(n, link), ring_all_reduce(n, link)
    assert all_reduce(n, size, link) == min(form.at(size) for form in (forms[:2] if link.direct else forms[2:]))


@given(ranks, sizes, links)
@settings(deadline=None)
def test_more_ranks_or_bytes_never_cheaper(n: int, size: float, link: Link) -> None:
    for form in (ring_all_reduce, one_shot_all_reduce, two_shot_all_reduce, all_gather, all_to_all):
        assert form(n + 1, link).at(size) >= form(n, link).at(size)
        assert form(n, link).at(size + 1) >= form(n, link).at(size)


@given(links)
@settings(deadline=None)
def test_one_rank_costs_nothing(link: Link) -> None:
    for form in (ring_all_reduce, one_shot_all_reduce, two_shot_all_reduce, all_gather, all_to_all):
        assert form(1, link) == Line(0.0, 0.0)
