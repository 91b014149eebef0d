"""Seesaw: prompts alone until the store for KV is full, then decodes alone until it is empty.

Su et al. (arXiv 2503.06433). Prompts and decodes have layouts of their own, and the devices change between them only
when the host's store has no room for another prompt (or no request waits), and when it is empty. KV is copied out
during prompts. It returns during decodes, one request after another over the link, as soon as the devices have room for
it; the first of a phase is waited for. Where outputs outgrow the devices, the last request to return goes out again,
as the host still has its KV; a lone request that is larger than the devices decodes as if it fit. Outputs are kept in
the store as well, so prompts leave room there for as much as the devices hold (half of it at most). The cost model
gives the time of a change and a copy (`LaneView.store`, the term `seesaw`); under another cost the phases are the same,
changes take no time and all decode at once.

A prompt phase ends as well once it has computed as many tokens as the store holds, so that decodes continue however
short the outputs are. The store counts running requests: give the engine `max_sequences` that do not bind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import ClassVar

from poise.core.action import ALL, NONE, UNTIL_HEAD, Batch, Entry
from poise.core.estimate import Store
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, Chunked


@dataclass(slots=True)
class Seesaw(Chunked):
    """Compose by phases; `tokens` and `long_prefill` as in `Chunked`.

    until: the part of a phase's decodes that may be left when prompts begin again; 0: none.
    """

    decodes_alone: ClassVar[bool] = False
    phases: ClassVar[bool] = True

    until: float = 0.0
    _decoding: bool = field(default=False, init=False, repr=False, compare=False)
    _left: int = field(default=0, init=False, repr=False, compare=False)
    _computed: int = field(default=0, init=False, repr=False, compare=False)
    _there: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _free_at: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.until < 1:
            raise ValueError(f"until {self.until} is no part of the decodes below 1; give 0 up to 1")

    def batch(self, lane: LaneView) -> Batch:
        """Prompts in their phase, or where it begins; else decodes."""
        if not self._decoding or lane.decoding <= self._left:
            entries = self._prompts(lane)
            if entries:
                return self._prefill(lane, entries)
        return self._decode(lane) if lane.decoding else BLOCKED

    def _prompts(self, lane: LaneView) -> list[Entry]:
        """Running prompts and waiting requests in order, as far as the store has room; none: the phase is over."""
        entries: list[Entry] = []
        budget = self.tokens or lane.engine.token_budget
        cap = self.long_prefill or budget
        budget, blocks = self._go_on(lane, entries, budget, cap)
        if lane.decoding and not lane.room(blocks):
            return []
        full = lane.decoding and self._computed >= lane.total_blocks * lane.engine.block_tokens
        if lane.spec.prefill and lane.waiting and not (lane.preempted or full):
            self._admit(lane, entries, budget, cap, blocks + self._growth(lane))
        return entries

    def _growth(self, lane: LaneView) -> int:
        """KV blocks that prompts leave to the outputs of stored requests: what the devices hold, or one for each."""
        store = _store(lane)
        if store is None or not lane.decoding:
            return lane.decoding
        return min(store.blocks, lane.total_blocks // 2)

    def _prefill(self, lane: LaneView, entries: list[Entry]) -> Batch:
        """A step of prompts, after a change of layout where decodes were before."""
        tokens = sum([entry.tokens for entry in entries])
        if not tokens:
            return Batch(tuple(entries), NONE)  # KV that is there already needs no layout
        store, changes = _store(lane), self._decoding
        self._decoding = False
        self._computed += tokens
        return Batch(tuple(entries), NONE, setup=store.to_prefill if store is not None and changes else 0)

    def _decode(self, lane: LaneView) -> Batch:
        """A step of those decodes whose KV is on the devices, after a change of layout where prompts were before."""
        store, setup = _store(lane), 0
        if not self._decoding:
            self._decoding, self._computed = True, 0
            self._left = int(self.until * lane.decoding)
            self._there.clear()
            if store is not None:
                setup = store.to_decode
                self._free_at = lane.now + setup
        if store is None:
            return Batch((), ALL, UNTIL_HEAD)
        spare = self._fetch(lane, store)
        first = min(self._there, key=lambda request: self._there[request])
        if self._there[first] > lane.now:
            setup = self._there[first] - lane.now
            self._there[first] = lane.now
        here = tuple([request for request, at in self._there.items() if at <= lane.now])
        return Batch((), here, UNTIL_HEAD, wake_at=self._look_again(lane, len(here), spare), setup=setup)

    def _fetch(self, lane: LaneView, store: Store) -> int:
        """Start copying back the requests that fit the devices; return the blocks left after this step."""
        block, there = lane.engine.block_tokens, self._there
        known: list[SequenceView] = []
        apart: list[SequenceView] = []
        for sequence in lane.decodes(paused=False):
            (known if sequence.id in there else apart).append(sequence)
        # Requests whose KV is being copied head the paused ones, of which there may be very many.
        known += [each for each in islice(lane.paused.values(), len(there)) if each.id in there]
        blocks = {sequence.id: sequence.computed // block + 1 for sequence in known}
        self._there = there = {request: at for request, at in there.items() if request in blocks}
        taken = sum(blocks.values())
        while taken > store.blocks and len(there) > 1:
            taken -= blocks[there.popitem()[0]]
        for sequence in chain(lane.paused.values(), apart):
            if sequence.id in there:
                continue
            needed = sequence.computed // block + 1
            if there and (taken + needed + len(there) > store.blocks or len(there) >= store.sequences):
                break
            taken += needed
            self._free_at = max(self._free_at, lane.now) + -(-sequence.computed // block) * store.block
            there[sequence.id] = self._free_at
        return store.blocks - taken

    def _look_again(self, lane: LaneView, here: int, spare: int) -> int:
        """The time at which a request is back, or the earliest at which the decodes may outgrow the devices.

        No step is shorter than one without context, which bounds the time of that many steps from below.
        """
        at = min((at for at in self._there.values() if at > lane.now), default=0)
        if len(self._there) == 1:
            return at
        steps = 1 + max(spare, 0) // here * lane.engine.block_tokens
        full = lane.now + max(1, steps * lane.predict((), here, 0))
        return min(at, full) if at else full


def _store(lane: LaneView) -> Store | None:
    """The store, for a lane that has the devices to itself."""
    return lane.store if lane.spec.prefill and lane.spec.decode else None
