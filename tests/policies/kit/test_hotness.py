"""The key of a prompt against a model that counts the whole window afresh for each request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.kit.hotness import Hotness


def chain(*names: int) -> tuple[int, ...]:
    """Ids that name whole prefixes: (1, 2) becomes (1, 12)."""
    ids, prefix = [], 0
    for name in names:
        prefix = prefix * 10 + name
        ids.append(prefix)
    return tuple(ids)


class Model:
    """The rule as written: full counts over a list, and the set of prefixes that keys go beyond."""

    def __init__(self, window: int, blocks: int) -> None:
        self.window = window
        self.blocks = blocks
        self.seen: list[tuple[int, ...]] = []
        self.grown: set[int] = set()

    def key(self, ids: tuple[int, ...], replicas: int) -> int:
        self.seen.append(ids[min(self.blocks, len(ids)) - 1 :])
        self.seen = self.seen[-self.window :]
        total = max(len(self.seen), replicas)
        counts = {extent: sum(extent in each for each in self.seen) for each in self.seen for extent in each}
        self.grown &= set(counts)
        path = ids[min(self.blocks, len(ids)) - 1 :]
        for extent in path[:-1]:
            share = counts[extent] / total
            if extent in self.grown:
                if share < 1 / replicas:
                    self.grown = {each for each in self.grown if not str(each).startswith(str(extent))}
                    return extent
            elif share > 2 / replicas:
                self.grown.add(extent)
            else:
                return extent
        return path[-1]


prompts = st.lists(st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=5), min_size=1, max_size=80)


@given(prompts, st.integers(1, 20), st.integers(1, 6), st.integers(1, 3))
def test_keys_are_those_of_the_rule(prompts: list[list[int]], window: int, replicas: int, blocks: int) -> None:
    hotness, model = Hotness(window, blocks * 512), Model(window, blocks)
    for names in prompts:
        ids = chain(*names)
        ends = tuple(512 * (place + 1) for place in range(len(ids)))
        assert hotness.key(ids, ends, replicas) == model.key(ids, replicas)


def test_a_key_grows_with_its_share_and_shrinks_again() -> None:
    """Four replicas, a window of 8: a key grows above 4 of 8 requests and shrinks below 2 of 8."""
    hotness = Hotness(window=8, tokens=1024)
    ends = (512, 1024, 1536, 2048)

    def key(*names: int) -> int:
        return hotness.key(chain(*names), ends, 4)

    assert [key(1, 1, tail, 9) for tail in range(1, 5)] == [11, 11, 113, 114]  # 3 of the first 4 are more than half
    assert [key(other, 5, 5, 5) for other in range(2, 6)] == [25, 35, 45, 55]
    assert key(1, 1, 6, 9) == 116  # 4 of 8: between the bounds it stays as it is
    assert [key(other, 5, 5, 5) for other in range(6, 10)] == [65, 75, 85, 95]
    assert key(1, 1, 7, 9) == 117  # 2 of 8
    assert [key(other, 6, 6, 6) for other in range(2, 8)] == [26, 36, 46, 56, 66, 76]
    assert key(1, 1, 8, 9) == 118
    assert [key(other, 7, 7, 7) for other in range(2, 9)] == [27, 37, 47, 57, 67, 77, 87]
    assert key(1, 1, 9, 9) == 11  # 1 of 8


def test_the_shortest_key_covers_the_requested_tokens() -> None:
    hotness = Hotness(window=100, tokens=1024)
    assert hotness.key((1, 2, 3), (512, 1024, 1536), 8) == 2
    assert hotness.key((4, 5), (2000, 2100), 8) == 4
    assert hotness.key((6, 7), (100, 200), 8) == 7  # shorter than any key should be: all of it
