"""The prefix index against a slow loop, and the memory of what was sent."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.prefix_index import PrefixIndex, Sent, SentPrefixes

REPLICAS = 5
changes = st.lists(st.tuples(st.integers(0, REPLICAS - 1), st.integers(0, 6), st.sampled_from("++++--x")), max_size=40)
chains = st.lists(st.integers(0, 6), unique=True, max_size=6)


def slow_match(holds: list[set[int]], ids: list[int], ends: list[int]) -> list[int]:
    """Walk the prompt on each replica on its own."""
    found = []
    for held in holds:
        tokens = 0
        for extent, end in zip(ids, ends, strict=True):
            if extent not in held:
                break
            tokens = end
        found.append(tokens)
    return found


@given(changes, chains, st.lists(st.integers(1, 9), min_size=6, max_size=6))
def test_match_walks_all_replicas_at_once(
    expected: list[tuple[int, int, str]], ids: list[int], lengths: list[int]
) -> None:
    index = PrefixIndex(REPLICAS)
    holds: list[set[int]] = [set() for _ in range(REPLICAS)]
    for replica, extent, what in expected:
        if what == "+":
            index.add(replica, extent)
            holds[replica].add(extent)
        elif what == "-":
            index.remove(replica, extent)
            holds[replica].discard(extent)
        else:
            index.forget(replica)
            holds[replica].clear()
    ends = [sum(lengths[: place + 1]) for place in range(len(ids))]
    assert index.match(ids, ends) == slow_match(holds, ids, ends)


def test_an_index_of_many_replicas_is_no_different() -> None:
    index = PrefixIndex(300)
    for replica in range(0, 300, 7):
        index.add(replica, 4)
        if replica % 2:
            index.add(replica, 5)
    assert index.match((4, 5), (10, 30)) == [0 if replica % 7 else 30 if replica % 2 else 10 for replica in range(300)]


sends = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 1), min_size=1, max_size=6)), max_size=30)


def chain(turns: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A prompt by its turns in a binary tree: an id names all turns so far, and its tokens depend on it alone."""
    ids = [1]
    for turn in turns:
        ids.append(2 * ids[-1] + turn)
    return tuple(ids[1:]), tuple(accumulate(1 + extent % 7 for extent in ids[1:]))


@given(sends, st.integers(1, 60))
def test_what_was_sent_is_remembered_up_to_the_room_of_the_cache(sent: list[tuple[int, list[int]]], room: int) -> None:
    """The least recently sent goes first, tails before heads: the model is a plain list of (extent, tokens)."""
    index = PrefixIndex(2)
    memory = SentPrefixes(index, [room, room])
    lists = [Sent(), Sent()]
    model: list[list[tuple[int, int]]] = [[], []]
    for replica, turns in sent:
        ids, ends = chain(turns)
        memory.send(replica, ids, ends)
        before = {extent for extent, _ in model[replica]}
        assert set(lists[replica].add(ids, ends)) == set(ids) - before
        for place, extent in reversed(list(enumerate(ids))):
            tokens = ends[place] - (ends[place - 1] if place else 0)
            model[replica] = [each for each in model[replica] if each[0] != extent] + [(extent, tokens)]
        dropped = []
        while sum(tokens for _, tokens in model[replica]) > room:
            dropped.append(model[replica].pop(0)[0])
        assert sorted(lists[replica].drop(room)) == sorted(dropped)
        for number in (0, 1):
            assert list(lists[number].oldest()) == model[number]
            assert lists[number].tokens == sum(tokens for _, tokens in model[number])
            known = {extent for extent, _ in model[number]}
            for extent in range(128):
                assert index.match((extent,), (1,))[number] == (extent in known)


def test_what_was_sent_is_found_until_the_replica_is_lost() -> None:
    index = PrefixIndex(3)
    memory = SentPrefixes(index, [100, 100, 100])
    memory.send(0, (1, 2), (10, 30))
    memory.send(2, (1,), (10,))
    assert index.match((1, 2), (10, 30)) == [30, 0, 10]
    memory.forget(0)
    assert index.match((1, 2), (10, 30)) == [0, 0, 10]
    memory.send(0, (1, 5), (10, 100))
    assert index.match((1, 5), (10, 100)) == [100, 0, 10], "its room is whole again"
