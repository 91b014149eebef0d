"""When sessions begin: each row leads back to one without predecessors, by its first joins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from poise.workload import Workload, poisson, sessions
from poise.workload.begin import begins


def test_rows_without_predecessors_begin_by_themselves() -> None:
    workload = poisson(5, requests=50, seed=1)
    assert begins(workload).tolist() == workload.arrival.tolist()


def test_turns_begin_with_their_session() -> None:
    workload = sessions(poisson(5, requests=20, seed=1), turns=4, think_s=1, seed=1)
    assert workload.session is not None
    first = {int(s): int(at) for s, at in zip(workload.session[::-1], begins(workload)[::-1], strict=True)}
    assert len(set(first.values())) == 20
    for session, at in zip(workload.session, begins(workload), strict=True):
        assert at == first[int(session)]


@given(st.lists(st.lists(st.integers(0, 9), max_size=3, unique=True), min_size=10, max_size=10))
def test_first_joins_lead_back(joins: list[list[int]]) -> None:
    """Against the slow way, on rows that join any rows before them."""
    after = [[of for of in some if of < row] for row, some in enumerate(joins)]
    offsets = np.cumsum([0, *map(len, after)])
    ids = np.array([each for some in after for each in some], dtype=np.int64)
    tokens = np.ones(10, dtype=np.int32)
    workload = Workload(
        np.arange(10) * 1000, tokens, tokens, after_offsets=offsets, after_ids=ids, delay=np.zeros(10, dtype=np.int64)
    )

    def root(row: int) -> int:
        return root(after[row][0]) if after[row] else row

    assert begins(workload).tolist() == [1000 * root(row) for row in range(10)]
