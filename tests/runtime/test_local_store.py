"""The store of forked ranks: it does what torch's own does, and jobs start side by side."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from multiprocessing import Pipe
from threading import Thread

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import RankError
from poise.runtime.guard import Seat
from poise.runtime.local_store import RankStore, ServedStore
from poise.runtime.ranks import Ranks
from tests.depth import examples
from tests.patience import PATIENCE_S

keys, words = st.sampled_from("ab"), st.sampled_from(["", "one", "two"])
calls = st.one_of(
    st.tuples(st.just("set"), keys, words),
    st.tuples(st.just("compare_set"), keys, words, words),
    st.tuples(st.just("delete_key"), keys),
    st.tuples(st.just("check"), st.lists(keys, min_size=1)),
    st.tuples(st.just("add"), st.just("count"), st.integers(-3, 3)),
    st.tuples(st.just("num_keys")),
)


@given(st.lists(calls, max_size=20))
@settings(max_examples=examples(200), deadline=None)
def test_it_answers_as_the_store_of_torch(made: list[tuple[str, ...]]) -> None:
    ours, theirs = Pipe()
    served, other = ServedStore([ours]), dist.HashStore()
    store = RankStore(theirs)
    try:
        for name, *rest in made:
            assert getattr(store, name)(*rest) == getattr(other, name)(*rest), (name, rest)
        for key in ("a", "b", "count"):
            assert store.check([key]) == other.check([key])
            assert served.value(key) == (other.get(key).decode() if other.check([key]) else None)
    finally:
        served.close()
        theirs.close()


def test_a_key_that_does_not_come_is_named() -> None:
    ours, theirs = Pipe()
    served = ServedStore([ours])
    with pytest.raises(dist.DistStoreError, match="keys: never"):
        RankStore(theirs).wait(["never"], timedelta(seconds=0))
    served.close()
    theirs.close()


def _sum(seat: Seat) -> None:
    ones = torch.ones(1)
    dist.all_reduce(ones)
    if ones.item() != seat.count:
        raise RankError(f"a sum over {seat.count} ranks is {ones.item():g}")


@pytest.mark.parametrize("threads", [False, True])
def test_jobs_that_start_side_by_side_do_not_meet(threads: bool) -> None:
    """Each job's ranks find each other, whichever process forks them in between, and no name is looked up."""
    ended: list[int] = []

    def job(count: int) -> Callable[[], None]:
        ranks = Ranks(count, _sum, timeout_s=PATIENCE_S)

        def end() -> None:
            ranks.wait()
            ended.append(count)

        return end

    counts = [1, 2, 3, 2]
    if threads:
        each = [Thread(target=lambda count=count: job(count)()) for count in counts]
        for one in each:
            one.start()
        for one in each:
            one.join(PATIENCE_S)
    else:
        for end in [job(count) for count in counts]:
            end()
    assert sorted(ended) == sorted(counts)
