"""The KV blocks of one replica: shared prefix extents, private blocks, and the eviction order of cached ones.

A block is in one of four places: private to a sequence, in an extent held by a sequence or a pin, in an extent
that is not held (cached: evicted when needed, least recently used first), or free. Counts are kept, not lists of
blocks; the blocks of decoding sequences are not counted here but computed by their group when they are needed
(`DecodeGroup.private`), so `free` is whatever is left.
"""

from __future__ import annotations

from bisect import bisect_left

from poise.core.engine.extents import CacheListener, Extents
from poise.core.engine.runs import Path, Run, path_of
from poise.core.request import Sequence


class KvPool(Extents):
    """Blocks and prefix extents of one replica.

    total: blocks.  explicit: private blocks of all sequences that are not in a decode group.
    unit: prefixes are found in multiples of so many blocks: where the states of recurrent layers are saved.
    """

    __slots__ = ("_ageing", "_anonymous", "block", "caching", "explicit", "total", "unit")

    def __init__(self, total: int, block: int, caching: bool, listener: CacheListener | None = None) -> None:
        super().__init__(listener)
        self.total = total
        self.block = block
        self.caching = caching
        self.unit = 1
        self.explicit = 0
        self._anonymous = -1
        self._ageing: Run | None = None  # the blocks without identity that were released last

    def blocks(self, tokens: int) -> int:
        """Blocks that `tokens` tokens take."""
        return -(-tokens // self.block)

    def private(self, sequence: Sequence) -> int:
        """Blocks of the computed tokens, and of the running chunk, that only this sequence uses."""
        return -(-(sequence.computed + sequence.chunk) // self.block) - sequence.shared

    def lookup(self, sequence: Sequence) -> int:
        """Blocks of a waiting sequence's prompt that are cached; its last token is always left to compute.

        vLLM's rule: a token must be computed to sample the next, so a full hit gives its last block back.
        """
        if sequence.hit_version == self.version:
            return sequence.hit
        hit = 0
        sequence.hit_runs = []
        sequence.hit_end = sequence.hit_own = 0
        if self.caching and (sequence.request.ids or sequence.own is not None):
            hit = self._found(sequence, (sequence.need - 1) // self.block)
            if hit % self.unit:
                hit = self._found(sequence, hit - hit % self.unit)
        sequence.hit = hit
        sequence.hit_version = self.version
        return hit

    def _found(self, sequence: Sequence, limit: int) -> int:
        """Blocks of its prompt that are cached, at most `limit`; notes the runs they lie in."""
        runs: list[Run] = []
        path, own = self._path(sequence), 0
        bounds = path.bounds
        place, hit = self.find(path, limit, runs)
        if place == len(bounds) and (not place or hit == bounds[place - 1]):
            own = max(0, min(self._left_of(sequence), limit - hit))
        sequence.hit_runs = runs
        sequence.hit_end = place
        sequence.hit_own = own
        return min(hit + own, limit)

    def _path(self, sequence: Sequence) -> Path:
        path = sequence.path
        if path is None:
            path = sequence.path = path_of(sequence.request.ids, sequence.request.ends, self.block)
        return path

    def _left_of(self, sequence: Sequence) -> int:
        """Blocks after its last extent that a preempted sequence left here, and that are still there."""
        own = sequence.own
        return own.blocks if own is not None and own in self.lru else 0

    def idle_hit(self, sequence: Sequence) -> int:
        """Evictable blocks that become held with what `lookup` found."""
        blocks, runs = sequence.hit_own, sequence.hit_runs
        for place, run in enumerate(runs):
            if not run.refs:
                blocks += run.blocks
                end = self._hit_end(sequence, place)
                if end < run.end:
                    blocks -= run.start + run.blocks - self._path(sequence).bounds[end - 1]
        return blocks

    def _hit_end(self, sequence: Sequence, place: int) -> int:
        """Up to which place of its path one of the runs that `lookup` found was found."""
        runs = sequence.hit_runs
        return sequence.hit_end if place + 1 == len(runs) else runs[place + 1].first

    def admit(self, sequence: Sequence) -> None:
        """Hold the cached prefix of a sequence; its computed tokens start there."""
        sequence.extent = 0
        if not sequence.request.ids and sequence.own is None:
            sequence.computed = sequence.shared = 0
            return
        hit, runs = self.lookup(sequence), sequence.hit_runs
        if runs:
            sequence.extent = sequence.hit_end - 1  # blocks of the last extent found may be missing
            for place, run in enumerate(runs):
                end = self._hit_end(sequence, place)
                if end < run.end:
                    run = runs[place] = self.split(run, end)
                self.hold(run)
        sequence.nodes = list(runs)
        sequence.shared = hit - sequence.hit_own
        sequence.computed = hit * self.block
        if sequence.own is not None:
            self._take_back(sequence.own, sequence.hit_own)
            sequence.own = None

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Take blocks for a chunk of `tokens` further tokens, and cache the extents that it completes.

        As in vLLM, blocks are findable from the moment their step is scheduled.
        """
        self.take(sequence, tokens)
        if sequence.request.ids:
            self.register(sequence)

    def take(self, sequence: Sequence, tokens: int) -> None:
        """Take private blocks for a chunk of `tokens` further tokens."""
        computed = sequence.computed
        self.explicit += -(-(computed + tokens) // self.block) - -(-computed // self.block)
        sequence.chunk = tokens

    def register(self, sequence: Sequence) -> None:
        """Cache the extents that the computed tokens and the running chunk complete."""
        if not (self.caching and sequence.request.ids):
            return
        path, place = sequence.path or self._path(sequence), sequence.extent
        ids, bounds = path.ids, path.bounds
        upto = sequence.computed + sequence.chunk
        full = upto // self.block
        if place >= len(ids) or full <= (bounds[place - 1] if place else 0):
            return
        end = bisect_left(bounds, full, place)
        if end < len(ids):
            end += 1
        sequence.extent = end if path.ends[end - 1] <= upto else end - 1
        moved = self.share(sequence.nodes, path, place, end, full)
        sequence.shared += moved
        self.explicit -= moved

    def release(self, sequence: Sequence, output_id: int = -1, *, returns: bool = False) -> list[Run]:
        """Free the private blocks of a sequence (already off `explicit`) and return the runs it held, last first.

        With `output_id` the full blocks behind its last extent are cached under that id first; those of one that
        `returns` it finds again itself. A block that is not full cannot be found: it is free at once.
        The caller drops or pins the runs; they are freed tail first, so that heads of prefixes live longest.
        """
        full = sequence.computed // self.block
        private = min(self.private(sequence), full - sequence.shared)
        runs: list[Run] = sequence.nodes[::-1]
        if self.caching and (returns or (output_id >= 0 and output_id not in self.nodes)):
            start = sequence.request.ends[-1] if sequence.request.ends else 0
            blocks = min(full - start // self.block, private)
            if blocks > 0:
                runs.insert(0, self._leave(sequence, blocks) if returns else self._keep(sequence, output_id, blocks))
                private -= blocks
        if private > 0 and self.lru:
            self._append_anonymous(private)
        sequence.nodes = []
        sequence.shared = 0
        sequence.hit_version = -1
        return runs

    def resize(self, blocks: int) -> None:
        """Add blocks, or remove some that are free or evictable; else their users are preempted at their next step.

        Call `Space.refresh` before and after: what running steps have evicted does not depend on later changes.
        """
        self.total += blocks

    def check(self, private: int, short: int = 0) -> None:
        """Assert that every block is in exactly one place, `private` being what all sequences use alone.

        short: blocks in use that were removed, until their users are preempted.
        """
        runs = set(self.nodes.values())
        held = sum(run.blocks for run in runs if run.refs)
        idle = sum(run.blocks for run in self.lru)
        assert held == self.held, f"held {self.held}, extents say {held}"
        assert idle == self.cached, f"cached {self.cached}, extents say {idle}"
        assert all(not run.refs for run in self.lru), "an extent in use is up for eviction"
        assert {run for run in runs if not run.refs} == {run for run in self.lru if run.id >= 0}, (
            "an idle extent is lost"
        )
        assert sorted(self.nodes) == sorted(extent for run in runs for extent in run.extents), "runs overlap"
        assert 0 <= private + held <= self.total + short, f"{private} private + {held} held of {self.total} blocks"

    def _keep(self, sequence: Sequence, extent: int, blocks: int) -> Run:
        """Cache the last blocks of a sequence as an extent behind those of its prompt."""
        path, ends = self._path(sequence), sequence.request.ends
        place, start = len(path.ids), ends[-1] // self.block if ends else 0
        longer = path.extended(extent, sequence.computed, start + blocks)
        run = Run(extent, blocks, 1, longer, place, place + 1, start)
        self.found((extent,), run, blocks)
        return run

    def _leave(self, sequence: Sequence, blocks: int) -> Run:
        """Blocks of a preempted sequence that no other can find; they are released like extents."""
        self._anonymous -= 1
        run = sequence.own = Run(self._anonymous, blocks, 1)
        self.held += blocks
        return run

    def _take_back(self, own: Run, blocks: int) -> None:
        """Make the first `blocks` blocks of what a sequence left its private ones again; the rest ages on."""
        own.blocks -= blocks
        own.found = False
        self.cached -= blocks
        self.explicit += blocks
        if blocks and not own.blocks:
            self._forget(own)

    def _append_anonymous(self, blocks: int) -> None:
        """Full blocks that cannot be found age with the cached ones: vLLM frees all of them into one queue."""
        lru = self.lru
        while lru and not (first := next(iter(lru))).found:
            del lru[first]  # the next to be evicted, so as good as free
            self.cached -= first.blocks
        if not lru:
            return
        last = next(reversed(lru))
        if last is self._ageing:
            last.blocks += blocks
        else:
            self._anonymous -= 1
            last = self._ageing = Run(self._anonymous, blocks, 0)
            last.found = False
            lru[last] = None
        self.cached += blocks
