"""The tree of what was sent, against whole prompts kept in a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.prefix_index import Sent
from poise.policies.kit.sent_prefixes import SentTree

chains = st.lists(st.integers(1, 3), min_size=1, max_size=5)
sends = st.lists(st.tuples(st.integers(0, 3), chains), max_size=25)


def extents(chain: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Chained ids and ends of a prompt: step k of a chain is an extent of 10 · k tokens."""
    ids, ends, name, end = [], [], 0, 0
    for place, step in enumerate(chain):
        name = name * 10 + step
        end += 10 * (place + 1)
        ids.append(name)
        ends.append(end)
    return tuple(ids), tuple(ends)


@given(sends, chains, st.sets(st.integers(0, 3), min_size=1))
def test_the_longest_match_of_who_is_able(sent: list[tuple[int, list[int]]], chain: list[int], able: set[int]) -> None:
    tree = SentTree()
    for replica, prompt in sent:
        tree.add(replica, *extents(prompt))
    replica, tokens = tree.match(*extents(chain), tuple(sorted(able)))
    longest, first = 0, -1
    for number, prompt in sent:
        common = next((n for n in range(5) if prompt[: n + 1] != chain[: n + 1]), 5)
        common = min(common, len(chain), len(prompt))
        if number in able and common > longest:
            longest, first = common, number
    assert (replica, tokens) == (first, extents(chain)[1][longest - 1] if longest else 0)


@given(sends, st.integers(0, 80))
def test_what_is_dropped_are_the_oldest_leaves(sent: list[tuple[int, list[int]]], room: int) -> None:
    kept = Sent()
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for now, (_, prompt) in enumerate(sent):
        ids, ends = extents(prompt)
        kept.add(ids, ends)
        for place, extent in enumerate(ids):
            last[extent], sizes[extent] = now, 10 * (place + 1)
    assert kept.tokens == sum(sizes.values())
    assert dict(kept.oldest()) == sizes
    for extent in kept.drop(room):
        assert not any(other // 10 == extent for other in last), "a leaf: nothing that is left goes on from it"
        leaves = [each for each in last if not any(other // 10 == each for other in last)]
        assert last[extent] == min(last[each] for each in leaves)
        del last[extent]
    left = sum(sizes[extent] for extent in last)
    assert kept.tokens == left <= room
    assert {extent for extent, _ in kept.oldest()} == set(last)


def test_who_was_dropped_holds_nothing_and_the_others_keep_theirs() -> None:
    tree = SentTree()
    tree.add(0, *extents([1, 1, 1]))
    tree.add(1, *extents([1, 2]))
    tree.add(0, *extents([2]))
    tree.drop(30)
    assert tree.match(*extents([1, 1, 1]), (0,)) == (0, 10)  # 10 + 20 + 30 + 10 tokens were too many: two leaves went
    assert tree.match(*extents([2]), (0,)) == (0, 10)
    assert tree.match(*extents([1, 2]), (0, 1)) == (1, 30)
    tree.drop(0)
    assert tree.match(*extents([1, 2]), (0, 1)) == (-1, 0)
    assert not tree._holders
