"""KV blocks whose prefixes are found once the step that computes them has ended, as in SGLang's radix cache."""

from __future__ import annotations

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.runs import Path, Run
from poise.core.request import Sequence


class LatePool(KvPool):
    """Prompts that are computed in one step find nothing of one another; of equal ones a single copy stays."""

    def lookup(self, sequence: Sequence) -> int:
        """Blocks of a waiting sequence's prompt that are cached: used now, and a node of the tree of its own."""
        hit = super().lookup(sequence)
        runs = sequence.hit_runs
        if not hit or not self.caching:
            return hit
        last, path = runs[-1], self._path(sequence)
        if sequence.hit_end < last.end and path.bounds[sequence.hit_end - 1] <= hit:
            runs[-1] = self.split(last, sequence.hit_end)
            sequence.hit_version = self.version
            if not last.refs:
                self.lru.move_to_end(last)
        for run in reversed(runs):
            if not run.refs:
                self.lru.move_to_end(run)
        return hit

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Take blocks for a chunk; `register` caches them at its end."""
        self.take(sequence, tokens)

    def share(self, held: list[Run], path: Path, place: int, end: int, full: int) -> int:
        """As in `Extents`, but copies of what others computed meanwhile are freed, and theirs are held instead."""
        moved = 0
        while place < end:
            run = self.nodes.get(path.ids[place])
            if run is None or (held and held[-1] is run):
                after = self._absent(path.ids, place + 1, end) if run is None else min(run.end, end)
                moved += super().share(held, path, place, after, full)
            else:
                after, blocks = self._join(held, run, path, place, end, full)
                moved += blocks
            place = after
        if held:
            held[-1].parted = True  # each chunk is a node of its own
        return moved

    def _join(self, held: list[Run], run: Run, path: Path, place: int, end: int, full: int) -> tuple[int, int]:
        """Hold another's run as far as the prompts are equal; up to which place, and the blocks that are shared now."""
        assert run.path is not None
        after = run.first
        while after < min(run.end, end) and run.path.ids[after] == path.ids[after]:
            after += 1
        if after < run.end:
            run = self.split(run, after)
        start = path.bounds[place - 1] if place else 0
        self.hold(run)
        held.append(run)
        return after, min(run.start + run.blocks, full) - start

    def trim(self, run: Run, blocks: int) -> None:
        """Evict all of a run: a node of the tree is never evicted in part."""
        if run.path is None:
            super().trim(run, blocks)
        else:
            self._forget(run)

    def release(self, sequence: Sequence, output_id: int = -1, *, returns: bool = False) -> list[Run]:
        """As in `KvPool`, but of a retracted request only the prompt is found again, where that has an identity."""
        if not returns:
            return super().release(sequence, output_id)
        runs: list[Run] = sequence.nodes[::-1]
        sequence.nodes = []
        sequence.shared = 0
        sequence.hit_version = -1
        return runs
