"""A replica's side of KV transfers: requests whose KV cache comes from another replica, or goes to one.

There are two kinds. In a P/D pair a prompt is computed at one replica (`send`), fetched by another and then released
(`release`). A live migration copies the KV of a request that goes on decoding: the target takes blocks for each part
(`reserve`, `received`); for the last, short part the request is paused at its source (`park`), and continues at its
target (`pulled`) or, if the move failed, where it was (`unpark`).

As in `Replica`, `passed` says whether a step that ends exactly at `now` has already been dealt with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.engine.replica import Replica


class KvTransfer:
    """One replica's transfers. leaving: decoding sequences that stop at their next step boundary."""

    __slots__ = ("leaving", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.leaving: list[Sequence] = []

    # Prompts of P/D pairs --------------------------------------------------------------------------------------------

    def send(self, sequence: Sequence) -> None:
        """A prompt is computed; its KV stays until another replica has fetched it."""
        sequence.move(Phase.SENDING)
        self.replica.runs_no_more(sequence)

    def pulled(self, request: int, now: int, passed: bool = False) -> None:
        """All KV of a request has arrived."""
        replica = self.replica
        sequence = replica.sequences[request]
        replica.pool.register(sequence)
        self.received(request)
        sequence.source = -1
        self.resume(sequence)
        replica.look_again(now, passed)

    def compute_here(self, request: int, now: int, passed: bool = False) -> None:
        """The KV of a request will not arrive: it waits again, first in the queue, to have it computed here."""
        replica = self.replica
        sequence, pool = replica.sequences[request], replica.pool
        replica.catch_up(now, passed)
        pool.explicit -= pool.private(sequence)
        pool.drop(pool.release(sequence))
        replica.queued_tokens += sequence.computed
        sequence.computed += sequence.chunk  # once computed, for whoever accounts for what is done again
        sequence.source = -1
        replica.wait_again(sequence)
        replica.look_again(now, passed)

    def release(self, request: int, now: int, passed: bool = False) -> None:
        """Another replica has fetched the KV of a request, or never will."""
        replica = self.replica
        sequence = replica.sequences[request]
        if sequence.phase == Phase.MOVING:
            replica.runs_no_more(sequence)
        replica.catch_up(now, passed)
        replica.free(sequence)
        replica.look_again(now, passed)

    def resume(self, sequence: Sequence) -> None:
        """A sequence whose KV was transferred decodes from the next step on, or finishes its prompt."""
        replica = self.replica
        if sequence.produced and sequence.computed == sequence.need - 1:
            replica.queued_tokens -= 1
            sequence.move(Phase.DECODE)
            self.join_decodes(sequence)
        else:
            sequence.move(Phase.PREFILL)
            lane = replica.prefill_lane
            sequence.lane = lane.index
            lane.prefilling.append(sequence)

    def join_decodes(self, sequence: Sequence) -> None:
        """Let a sequence decode from the next step on."""
        lane = self.replica.decode_lane
        sequence.lane = lane.index
        lane.joining.append(sequence)

    # Live migration --------------------------------------------------------------------------------------------------

    def withdraw(self, request: int, now: int, passed: bool = False) -> None:
        """Take a waiting request back; what it may have swapped out is lost."""
        replica = self.replica
        sequence = replica.sequences[request]
        replica.waiting.remove(sequence)
        replica.queued_tokens -= sequence.need
        replica.catch_up(now, passed)
        replica.end(sequence)
        replica.look_again(now, passed)

    def reserve(self, sequence: Sequence, produced: int, tokens: int, now: int, passed: bool = False) -> bool:
        """Take blocks for the next `tokens` tokens of a migrating sequence; False if there are none.

        produced: its output tokens by now.
        """
        replica = self.replica
        pool, new = replica.pool, sequence.phase == Phase.WAITING
        blocks = pool.blocks(sequence.computed + tokens) - pool.blocks(sequence.computed)
        if blocks > replica.space.available(now, passed):
            return False
        adapters = replica.adapters
        if new and replica.running >= replica.engine.max_sequences:
            return False
        if new and adapters is not None and not adapters.fits(sequence.request.lora):
            return False
        if new:
            sequence.produced = produced
            sequence.extent = 0
            sequence.move(Phase.PULLING)
            replica.sequences[sequence.id] = sequence
            if replica.flows is not None:
                replica.flows.admit(sequence, 0)
            replica.running += 1
            if adapters is not None:
                replica.decode_lane.swapping += adapters.enter(sequence.request.lora)
            replica.queued_tokens += sequence.need
        replica.queued_tokens += produced - sequence.produced
        sequence.produced = produced
        pool.take(sequence, tokens)
        replica.space.refresh(now, passed)
        replica.look_again(now, passed)
        return True

    def received(self, request: int) -> None:
        """The running part has arrived."""
        replica = self.replica
        sequence = replica.sequences[request]
        replica.queued_tokens -= sequence.chunk
        sequence.computed += sequence.chunk
        sequence.chunk = 0

    def park(self, request: int, now: int, passed: bool = False) -> None:
        """Pause a decoding request from the next step boundary on; the turn there reports it as PARKED."""
        self.leaving.append(self.replica.sequences[request])
        self.replica.odd = True
        self.replica.look_again(now, passed)

    def unpark(self, request: int, now: int, passed: bool = False) -> None:
        """Let a request decode here again, or continue."""
        replica = self.replica
        sequence = replica.sequences[request]
        self.leaving = [each for each in self.leaving if each is not sequence]
        if sequence.phase == Phase.MOVING:
            sequence.move(Phase.DECODE)
            self.join_decodes(sequence)
            replica.look_again(now, passed)

    def let_go(self) -> list[Sequence]:
        """Between two steps: park the leaving sequences that can; the others have ended, or wait for their lane."""
        replica = self.replica
        parked: list[Sequence] = []
        later: list[Sequence] = []
        for sequence in self.leaving:
            if sequence.phase != Phase.DECODE or sequence.cancelled:
                continue
            lane = replica.lanes[sequence.lane]
            if lane.steps:
                later.append(sequence)
            elif lane.take_out(sequence):
                sequence.move(Phase.MOVING)
                parked.append(sequence)
        self.leaving = later
        return parked
