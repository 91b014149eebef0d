"""The engine's state between two steps, as batchers see it (`view.LaneView`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from poise.core.action import ALL
from poise.core.errors import UserError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.policy import Queue
from poise.core.spec import Engine, Lane
from poise.core.view import SequenceView
from poise.live.vllm.request import Inner, RequestViews, Seat


class Inward(Protocol):
    """The engine interface of the lane."""

    def running(self) -> Iterable[Inner]:
        """The admitted requests that have tokens left to compute, in order of admission."""
        ...

    def leaving(self) -> int:
        """The number of other admitted requests: those whose last token is being computed."""
        ...

    def waiting(self) -> Iterable[Inner]:
        """Those that may be admitted now, in order."""
        ...

    def waits(self) -> int:
        """How many these are."""
        ...

    def free_blocks(self) -> int:
        """KV blocks without an owner."""
        ...

    def hit(self, inner: Inner) -> tuple[int, int]:
        """Tokens of a waiting request that the prefix cache holds, and how many of their blocks have no owner."""
        ...


class InsideLane:
    """The one lane of an engine; `begin` reads its state before each step.

    prefilling, group, paused: running requests by what they do next (see `core.engine.lane`); the latter two by id.
    planned: blocks that this step already takes, for the entries composed so far.
    leaving: requests that keep their place and blocks until the step that computes their last token has ended.
    step: the cost of a step, None where no cost model is configured.
    """

    def __init__(
        self,
        inward: Inward,
        engine: Engine,
        layers: int,
        queue: Queue | None = None,
        step: Callable[[StepShape], Piece] | None = None,
    ) -> None:
        self.engine = engine
        self.spec: Lane = engine.lanes[0]
        self.model_layers = layers
        self.preempted = False
        self.decode_steps = 0
        self.prefilling: list[Seat] = []
        self.group: dict[int, Seat] = {}
        self.paused: dict[int, Seat] = {}
        self.planned = 0
        self.leaving = 0
        self.now = 0
        self.seats = RequestViews(engine.block_tokens, engine.prefix_caching)
        self._inward = inward
        self._policy = queue
        self._step = step
        self._ordered: list[Seat] | None = None
        self._hits: dict[int, tuple[int, int]] = {}
        self._ahead = 0

    # Read by batchers ------------------------------------------------------------------------------------------------

    @property
    def decoding(self) -> int:
        """Requests in their decode phase."""
        return len(self.group) + len(self.paused)

    @property
    def decoding_prompts(self) -> int:
        """Prompt tokens of the requests in their decode phase."""
        return sum([seat.request.prompt_tokens for seat in self.decodes()])

    @property
    def running(self) -> int:
        """Admitted requests."""
        return len(self.prefilling) + self.decoding + self.leaving

    @property
    def waiting(self) -> int:
        """Requests that may be admitted."""
        return self._inward.waits()

    def queue(self) -> Iterator[Seat]:
        """The waiting requests in order: the engine's own, or that of the queue policy."""
        arrived = (self.seats.of(inner, self.now) for inner in self._inward.waiting())
        if self._policy is None:
            return arrived
        if self._ordered is None:
            self._ordered = sorted(arrived, key=self._place)
        return iter(self._ordered)

    def decodes(self, paused: bool = True) -> Iterator[Seat]:
        """The decoding requests, in order of joining."""
        if paused:
            yield from self.paused.values()
        yield from self.group.values()

    def newest(self) -> Seat:
        """The decoding request that joined last."""
        members = self.group or self.paused
        return members[next(reversed(members))]

    def cached(self, sequence: SequenceView) -> int:
        """Tokens of a waiting request that the prefix cache holds now (at most all but its last token)."""
        return self._hit(sequence)[0]

    def blocks_for(self, sequence: SequenceView, tokens: int) -> int:
        """KV blocks that become unavailable when `tokens` further tokens of the request are computed."""
        block = self.engine.block_tokens
        if not sequence.admitted:  # type: ignore[attr-defined]  # the view is the seat itself
            return -(-tokens // block) + self._hit(sequence)[1]
        return -(-(sequence.computed + tokens) // block) - -(-sequence.computed // block)

    def room(self, blocks: int) -> bool:
        """Whether `blocks` KV blocks are free or evictable, apart from those that this step's decodes take."""
        return self.free_blocks >= blocks

    @property
    def total_blocks(self) -> int:
        """KV blocks of the engine."""
        return self.engine.kv_blocks

    @property
    def free_blocks(self) -> int:
        """KV blocks that are free or evictable, apart from those that this step's decodes take."""
        return self._inward.free_blocks() - self.planned - self._ahead

    @property
    def store(self) -> None:
        """None: vLLM keeps all KV that a step reads on its devices."""
        return

    def predict(self, chunks: Sequence[Chunk], decodes: int = ALL, context: int = 0, share: float = 0.0) -> int:
        """Picoseconds of a step with `chunks` and decodes: all here, none, or `decodes` of `context` KV tokens.

        UserError where no cost model is configured.
        """
        if self._step is None:
            text = "the batcher asks how long a step takes; give `cost: FILE`, which `poise calibrate` writes"
            raise UserError(f"poise inside vLLM: {text}")
        if decodes == ALL:
            decodes, context = self.decoding, sum(seat.computed + 1 for seat in self.decodes())
        piece = self._step(StepShape(decodes, tuple(chunks), share or 1.0)).at(context)
        return piece.base + piece.per_kv * context

    # Between steps ---------------------------------------------------------------------------------------------------

    def begin(self, now: int, chunks: Iterable[Seat]) -> None:
        """Read the engine's new state: `chunks` are the requests whose prompts it computed, in the batch's order."""
        self.now = now
        self.preempted = False
        self.planned = 0
        self.leaving = self._inward.leaving()
        running = {inner.request_id: inner for inner in self._inward.running()}
        for seat in [*self.prefilling, *self.decodes()]:
            if running.get(seat.inner.request_id) is not seat.inner:
                self._lose(seat)
        for seat in chunks:
            if seat in self.prefilling and not seat.inner.is_prefill_chunk:
                self.prefilling.remove(seat)
                self.group[seat.id] = seat
        if len(running) > self.running - self.leaving:
            self._adopt(running.values())
        for seat in (*self.prefilling, *self.decodes()):
            seat.refresh()
        self.look_again()

    def look_again(self) -> None:
        """Blocks or the queue have changed: drop cached results about them."""
        block = self.engine.block_tokens
        self._ordered = None
        self._hits.clear()
        self._ahead = sum(not seat.computed % block for seat in self.group.values())

    def choose(self, wanted: set[int] | None) -> None:
        """Bring the group to the decodes that are wanted (None: all); the others pause, keeping their blocks."""
        members = {**self.group, **self.paused}
        self.group = {id: seat for id, seat in members.items() if wanted is None or id in wanted}
        self.paused = {id: seat for id, seat in members.items() if id not in self.group}
        self.look_again()

    def admit(self, seat: Seat) -> None:
        """A waiting request is admitted; its prompt is being computed."""
        seat.admitted = True
        self.prefilling.append(seat)

    def give_way(self, seat: Seat) -> None:
        """A running request lost its blocks and waits again."""
        self.preempted = True
        seat.preemptions += 1
        self._lose(seat)
        self.look_again()

    def left(self) -> None:
        """A request whose last token is being computed lost its blocks."""
        self.preempted = True
        self.leaving -= 1
        self.look_again()

    def _lose(self, seat: Seat) -> None:
        """A request has stopped running."""
        if seat in self.prefilling:
            self.prefilling.remove(seat)
        self.group.pop(seat.id, None)
        self.paused.pop(seat.id, None)
        seat.admitted = False
        seat.computed = 0
        seat.key = None

    def _adopt(self, running: Iterable[Inner]) -> None:
        """Requests that the engine admitted on its own, such as those whose client continued its input."""
        known = {seat.inner.request_id for seat in (*self.prefilling, *self.decodes())}
        for inner in running:
            if inner.request_id not in known:
                seat = self.seats.of(inner, self.now)
                seat.admitted = True
                if inner.is_prefill_chunk:
                    self.prefilling.append(seat)
                else:
                    self.group[seat.id] = seat

    def _place(self, seat: Seat) -> tuple[Any, int, int]:
        if seat.key is None:
            assert self._policy is not None
            place = getattr(self._policy, "place", None)
            seat.key = self._policy.queue(seat.request) if place is None else place(seat)
        return seat.key, seat.request.arrived_at, seat.id

    def _hit(self, sequence: SequenceView) -> tuple[int, int]:
        found = self._hits.get(sequence.id)
        if found is None:
            seat = self.seats.find(sequence.id)
            assert seat is not None
            found = self._hits[sequence.id] = self._inward.hit(seat.inner)
        return found
