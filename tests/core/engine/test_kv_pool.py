"""`KvPool`, which keeps counts, against a pool that keeps every block; and its own rules one by one."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.runs import Run
from poise.core.errors import PoiseError
from poise.core.request import RequestView, Sequence
from tests.core.blocks import OWN, BlockPool, Work, held, idle, known
from tests.depth import examples

Path = tuple[tuple[int, ...], tuple[int, ...]]


class Pair:
    """One sequence, in both pools."""

    def __init__(self, number: int, path: Path, tail: int, produced: int = 0) -> None:
        ids, ends = path
        prompt = max((ends[-1] if ends else 0) + tail, 1)
        self.sequence = Sequence(RequestView(number, 0, prompt, ids=ids, ends=ends), 10**6, produced)
        self.work = Work(ids, ends)
        self.need = self.sequence.need


class PoolOfBlocks(RuleBasedStateMachine):
    """Sequences come, grow, decode, give way, end and are pinned; both pools must tell the same at every turn."""

    @initialize(
        total=st.integers(4, 60),
        size=st.sampled_from([1, 2, 2, 4]),
        lengths=st.lists(st.integers(1, 9), min_size=2, max_size=7),
        forks=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    )
    def begin(self, total: int, size: int, lengths: list[int], forks: list[int]) -> None:
        self.changes: list[tuple[int, bool]] = []
        self.pool = KvPool(total, size, True, lambda extent, entered: self.changes.append((extent, entered)))
        self.slow = BlockPool(total, size)
        ends = tuple(sum(lengths[: place + 1]) for place in range(len(lengths)))
        ids = tuple(range(len(lengths)))
        self.paths: list[Path] = [((), ()), (ids, ends)]
        for number, fork in enumerate(forks, 1):  # beginnings of the one prompt, and others that part from it there
            self.paths.append((ids[:fork], ends[:fork]))
            self.paths.append(((*ids[:fork], *(100 * number + place for place in ids[fork:])), ends))
        self.pairs: list[Pair] = []
        self.waiting: list[Pair] = []
        self.pins: list[tuple[list[Run], list[int]]] = []
        self.count = 0

    @rule(data=st.data(), tail=st.integers(0, 3), tokens=st.integers(1, 8))
    def admit(self, data: st.DataObject, tail: int, tokens: int) -> None:
        self.count += 1
        self._admit(Pair(self.count, data.draw(st.sampled_from(self.paths)), tail), tokens)

    @rule(data=st.data(), tail=st.integers(0, 3))
    def admit_twins(self, data: st.DataObject, tail: int) -> None:
        """Two of the same prompt before either has a block to share: they compute it side by side."""
        path = data.draw(st.sampled_from(self.paths))
        for _ in range(2):
            self.count += 1
            self._admit(Pair(self.count, path, tail), 1)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), tokens=st.integers(1, 20))
    def admit_again(self, data: st.DataObject, tokens: int) -> None:
        """Who gave way comes back, its output so far a part of what is to be computed."""
        self._admit(self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1))), tokens)

    def _admit(self, pair: Pair, tokens: int) -> None:
        pool, sequence = self.pool, pair.sequence
        hit = pool.lookup(sequence)
        tokens = min(tokens, pair.need - hit * pool.block)
        if pool.blocks(tokens) + pool.idle_hit(sequence) > self._free():
            return
        pool.admit(sequence)
        self.slow.admit(pair.work, pair.need)
        assert sequence.computed == pair.work.computed
        self.pairs.append(pair)
        self._compute(pair, tokens)

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), tokens=st.integers(1, 8))
    def grow(self, data: st.DataObject, tokens: int) -> None:
        """A chunk of the prompt, or one token behind it."""
        pair = data.draw(st.sampled_from(self.pairs))
        left = pair.need - pair.sequence.computed
        if not left:
            pair.sequence.produced += 1
            pair.need = pair.sequence.need
            left = 1
        tokens = min(tokens, left)
        size = self.pool.block
        blocks = -(-(pair.sequence.computed + tokens) // size) - -(-pair.sequence.computed // size)
        if blocks <= self._free():
            self._compute(pair, tokens)

    def _compute(self, pair: Pair, tokens: int) -> None:
        self.pool.grow(pair.sequence, tokens)
        self.pool.settle(self._free())
        pair.sequence.computed += tokens
        pair.sequence.chunk = 0
        self.slow.grow(pair.work, tokens)

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), then=st.sampled_from(["end", "end with output", "give way", "pin"]), past=st.integers(0, 1))
    def leave(self, data: st.DataObject, then: str, past: int) -> None:
        pair = self.pairs.pop(data.draw(st.integers(0, len(self.pairs) - 1)))
        pool, sequence = self.pool, pair.sequence
        output = -1
        if then == "end with output" and sequence.computed == pair.need:
            self.count += 1
            output = 1000 + self.count
            ids, ends = sequence.request.ids, sequence.request.ends
            self.paths.append(((*ids, output), (*ends, sequence.computed + past)))
        pool.explicit -= pool.private(sequence)
        nodes = pool.release(sequence, output, returns=then == "give way")
        extents = self.slow.free(pair.work, output, then == "give way")
        assert held(nodes) == [extent for extent in extents if extent < OWN]
        if then == "pin":
            self.pins.append((nodes, extents))
            return
        pool.drop(nodes)
        self.slow.drop(extents)
        if then == "give way":
            sequence.computed = 0
            self.waiting.append(pair)

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        nodes, extents = self.pins.pop(data.draw(st.integers(0, len(self.pins) - 1)))
        self.pool.drop(nodes)
        self.slow.drop(extents)

    def _free(self) -> int:
        return self.pool.total - self.pool.held - self.pool.explicit

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "pool"):
            return
        pool, slow = self.pool, self.slow
        pool.check(pool.explicit)
        assert self._free() == len(slow.queue)
        assert known(pool) == {extent: len(blocks) for extent, blocks in slow.cached.items() if extent < OWN}
        assert idle(pool) == list(OrderedDict.fromkeys(each.extent for each in slow.queue if 0 <= each.extent < OWN))
        for pair in self.pairs:
            own = [block for block in pair.work.blocks if block.extent < 0]
            assert pool.private(pair.sequence) == len(own)

    @invariant()
    def both_find_the_same(self) -> None:
        if not hasattr(self, "pool"):
            return
        for path in self.paths:
            for tail in (0, 1):
                probe = Pair(0, path, tail)
                assert self.pool.lookup(probe.sequence) == self.slow.hit(probe.work, probe.need)[0]
        for pair in self.waiting:
            assert self.pool.lookup(pair.sequence) == self.slow.hit(pair.work, pair.need)[0]

    @invariant()
    def the_listener_got_all(self) -> None:
        if not hasattr(self, "pool"):
            return
        present: set[int] = set()
        for extent, entered in self.changes:
            assert entered != (extent in present), "told twice"
            (present.add if entered else present.remove)(extent)
        assert present == set(self.pool.nodes)


TestPoolOfBlocks = pytest.mark.deep(PoolOfBlocks.TestCase)
TestPoolOfBlocks.settings = settings(max_examples=examples(250), stateful_step_count=50)


def a_sequence(number: int, *extents: tuple[int, int], prompt: int = 0, produced: int = 0) -> Sequence:
    """A waiting sequence whose prompt is the extents `(id, end)`, longer than them where `prompt` is given."""
    ids, ends = tuple(extent for extent, _ in extents), tuple(end for _, end in extents)
    return Sequence(RequestView(number, 0, prompt or ends[-1], ids=ids, ends=ends), 100, produced)


def computed(pool: KvPool, sequence: Sequence, tokens: int) -> Sequence:
    """Admit a sequence if it waits and compute tokens of it."""
    if not hasattr(sequence, "extent"):
        pool.admit(sequence)
    pool.grow(sequence, tokens)
    sequence.computed += tokens
    sequence.chunk = 0
    return sequence


def end(pool: KvPool, sequence: Sequence, output_id: int = -1) -> None:
    pool.explicit -= pool.private(sequence)
    pool.drop(pool.release(sequence, output_id))


def test_the_last_token_is_always_left_to_compute() -> None:
    pool = KvPool(10, 2, True)
    end(pool, computed(pool, a_sequence(0, (1, 8)), 8))
    assert pool.lookup(a_sequence(1, (1, 8))) == 3, "a full hit gives its last block back"
    assert pool.lookup(a_sequence(2, (1, 8), prompt=9)) == 4


@given(st.integers(1, 9), st.integers(2, 7), st.integers(1, 60), st.integers(1, 60))
def test_prefixes_are_found_where_states_were_saved(size: int, unit: int, first: int, second: int) -> None:
    plain, pool = KvPool(200, size, True), KvPool(200, size, True)
    pool.unit = unit
    hits = []
    for each in (plain, pool):
        end(each, computed(each, a_sequence(0, (1, first), (2, 60)), 60))
        waiting = a_sequence(1, (1, first), (3, 60), prompt=max(first, second))
        hits.append(each.lookup(waiting))
        each.admit(waiting)
        assert waiting.computed == hits[-1] * size
        each.check(each.private(waiting))
    assert hits[1] == hits[0] // unit * unit


def test_a_hit_does_not_jump_over_a_gap() -> None:
    """The tail of an extent is not computed yet, but the next one is, by somebody who computed the tail alone."""
    pool = KvPool(20, 1, True)
    first, second = a_sequence(0, (1, 4), (2, 6)), a_sequence(1, (1, 4), (2, 6))
    pool.admit(second)  # before the first has anything to share
    computed(pool, first, 2)
    computed(pool, second, 6)
    assert known(pool) == {1: 2, 2: 2}
    assert pool.lookup(a_sequence(2, (1, 4), (2, 6))) == 2


def test_blocks_are_found_as_soon_as_their_step_is_scheduled() -> None:
    pool = KvPool(10, 2, True)
    sequence = a_sequence(0, (1, 8))
    pool.admit(sequence)
    pool.grow(sequence, 5)
    assert pool.lookup(a_sequence(1, (1, 8))) == 2


def test_turns_of_a_session_find_the_output_before_them() -> None:
    pool = KvPool(20, 2, True)
    sequence = computed(pool, a_sequence(0, (1, 4), prompt=5), 5)
    sequence.produced = 4
    computed(pool, sequence, 3)  # the fourth token ends it: its own KV is not computed
    end(pool, sequence, output_id=7)
    assert pool.lookup(a_sequence(1, (1, 4), (7, 9), prompt=12)) == 4


def test_an_output_that_is_there_already_is_not_entered_twice() -> None:
    pool = KvPool(20, 2, True)
    one, two = a_sequence(0, (1, 4), prompt=8), a_sequence(1, (1, 4), prompt=8)
    computed(pool, one, 8)
    computed(pool, two, 4)
    end(pool, one, output_id=7)
    end(pool, two, output_id=7)
    assert known(pool)[7] == 2
    pool.check(0)


def test_without_caching_nothing_is_found_or_kept() -> None:
    pool = KvPool(10, 2, False)
    end(pool, computed(pool, a_sequence(0, (1, 8)), 8), output_id=3)
    assert pool.lookup(a_sequence(1, (1, 8))) == 0
    assert (pool.held, pool.cached, pool.explicit, pool.nodes) == (0, 0, 0, {})


def test_holding_a_hit_takes_unheld_blocks_out_of_the_evictable() -> None:
    pool = KvPool(10, 2, True)
    end(pool, computed(pool, a_sequence(0, (1, 4), (2, 8)), 8))
    hit = a_sequence(1, (1, 4), (2, 8), prompt=9)
    assert (pool.lookup(hit), pool.idle_hit(hit), pool.cached, pool.held) == (4, 4, 4, 0)
    pool.admit(hit)
    assert (pool.idle_hit(hit), pool.cached, pool.held, hit.computed) == (0, 0, 4, 8)


def test_a_pool_that_cannot_balance_says_so() -> None:
    with pytest.raises(PoiseError, match="2 blocks to evict and nothing cached"):
        KvPool(4, 1, True).settle(-2)
