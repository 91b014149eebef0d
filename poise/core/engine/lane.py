"""One lane of a replica: its running requests, its held batch, and how a batch begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from typing import TYPE_CHECKING, Final

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.engine.decode_group import DecodeGroup
from poise.core.engine.hold import span, steps_within
from poise.core.engine.layer_preemption import LayerPass
from poise.core.engine.plain import fill, may_fill
from poise.core.engine.shared_device import Job
from poise.core.errors import PolicyError
from poise.core.estimate import Chunk, Piece, Running, StepShape, Store, one_chunk
from poise.core.fast_tuple import made
from poise.core.request import Phase, Sequence
from poise.core.spec import Engine, Lane
from poise.core.units import NEVER
from poise.core.view import SequenceView

if TYPE_CHECKING:
    from poise.core.engine.replica import Replica


ALL_DECODES: Final = Batch((), ALL, UNTIL_CHANGE)
"""The answer of a batcher with `decodes_alone` when there is nothing else to compute."""

BLOCKED: Final = Batch((), ALL, UNTIL_HEAD)
PROMPTS: Final = Batch((), ALL, ONE_STEP)
"""How a budgeted batcher holds a step: decodes while no prompt fits in, and with prompts (`core.engine.plain`)."""


class LaneState:
    """The lane that batchers see (`view.LaneView`), and its running batch.

    A held batch began at `began_at` and lasts `steps` steps to `until`; its first step takes `first`, each next one
    `growth` more. `steps` is 0 while the lane idles; `until` is then `NEVER`, or now when it has to look again.
    """

    __slots__ = (
        "_decodes_alone", "_one_chunk", "_pieces", "_prompts_first", "_shared_pieces", "alone", "began_at", "budget",
        "calm", "chunks", "compose", "decoded", "engine", "estimate", "fills", "first", "group", "growth", "hold",
        "index", "job", "joining", "left", "left_at", "long_prefill", "model_layers", "passing", "paused", "preempted",
        "prefilling", "reading", "replica", "review_at", "space", "spec", "steps", "swapping", "tokens", "until",
    )  # fmt: skip

    def __init__(self, replica: Replica, index: int, spec: Lane, layers: int) -> None:
        self.replica = replica
        self.index = index
        self.spec = spec
        self.engine: Engine = replica.engine
        self.space = replica.space
        self.compose = replica.batcher.batch
        self._decodes_alone: bool = getattr(replica.batcher, "decodes_alone", False)
        self._prompts_first: bool = getattr(replica.batcher, "prompts_first", False)
        self.estimate: Callable[[StepShape], Piece] = replica.estimator.step
        self.model_layers = layers
        self.group = DecodeGroup(self.engine.block_tokens, replica.estimator.window)
        self.prefilling: list[Sequence] = []
        self.joining: list[
            Sequence
        ] = []  # handed over by a prefill, here or elsewhere; they decode from the next step on
        self.paused: dict[int, Sequence] = {}  # decodes that the batch leaves out
        self.preempted = False
        self.calm = -1  # the pool's size with which nothing is evicted in the running hold; else unknown
        self.until = NEVER
        self.steps = 0
        self.began_at = 0
        self.first = 0
        self.growth = 0
        self.hold = ONE_STEP
        self.decoded = False  # whether the group advances in the running batch
        self.chunks: list[tuple[Sequence, Entry]] = []
        self.swapping = 0  # picoseconds that the next step takes longer: swaps, setups, loads of adapters
        self.reading = 0  # picoseconds that each step takes longer: the adapters of running requests
        self.tokens = 0  # prompt tokens of the running batch
        self._pieces: list[Piece | None] = []  # of decodes alone, by how many they are
        self._shared_pieces: dict[tuple[int, float], Piece] = {}  # where the batch sets its share of the SMs
        self._one_chunk = None if spec.share < 1.0 else one_chunk(replica.estimator)
        self.fills = may_fill(replica)
        self.budget = self.long_prefill = (
            0  # of a budgeted batcher: tokens of a step, and of one prompt in it (0: no cap)
        )
        if self.fills:
            self.budget = replica.batcher.tokens or self.engine.token_budget  # type: ignore[attr-defined]
            self.long_prefill = replica.batcher.long_prefill or self.engine.rank_budget  # type: ignore[attr-defined]
        self.alone: Piece | None = None
        self.passing: LayerPass | None = None  # the running batch, where it may be interrupted between two layers
        self.left: LayerPass | None = None  # what was left at `left_at`
        self.job: Job | None = None  # the running step, where other lanes may run beside it
        self.left_at = 0
        self.review_at = NEVER  # the decode step of the preemption policy's next review

    # Read by batchers ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The instant at which the batch is composed."""
        return self.space.now

    @property
    def decoding(self) -> int:
        """Requests in their decode phase on this lane."""
        return self.group.n + len(self.paused)

    @property
    def decoding_prompts(self) -> int:
        """Prompt tokens of the requests in their decode phase on this lane."""
        return self.group.prompts + sum([sequence.request.prompt_tokens for sequence in self.paused.values()])

    @property
    def decode_steps(self) -> int:
        """Steps with decodes that this lane has done."""
        return self.group.step

    @property
    def running(self) -> int:
        """Admitted requests on all lanes of the replica."""
        return self.replica.running

    @property
    def waiting(self) -> int:
        """Requests in the replica's queue."""
        return len(self.replica.waiting)

    def queue(self) -> Iterator[Sequence]:
        """The waiting requests in order, without those whose adapter finds no slot if all before were admitted."""
        flows, adapters = self.replica.flows, self.replica.adapters
        waiting = iter(self.replica.waiting) if flows is None else flows.ordered()
        return waiting if adapters is None else adapters.admissible(waiting)

    def decodes(self, paused: bool = True) -> Iterator[Sequence]:
        """The decoding requests of this lane in order of admission, their progress brought up to date."""
        if paused:
            yield from self.paused.values()
        group = self.group
        for sequence in group:
            sequence.computed = sequence.offset + group.step
            sequence.produced = sequence.output_tokens - (sequence.done_at_step - group.step)
            yield sequence

    def newest(self) -> Sequence:
        """The decoding request of this lane that joined last."""
        members = self.group.members or self.paused
        return members[next(reversed(members))]

    def cached(self, sequence: SequenceView) -> int:
        """Tokens of a waiting request that the prefix cache holds now (at most all but its last token)."""
        pool = self.replica.pool
        if not sequence.request.ids and sequence.own is None:  # type: ignore[attr-defined]  # the view is the sequence
            return 0
        return pool.lookup(sequence) * pool.block  # type: ignore[arg-type]

    def blocks_for(self, sequence: SequenceView, tokens: int) -> int:
        """KV blocks that become unavailable when `tokens` further tokens of the request are computed."""
        return self.space.blocks_for(sequence, tokens)  # type: ignore[arg-type]

    def room(self, blocks: int) -> bool:
        """Whether `blocks` KV blocks are free or evictable, besides those that this step's decodes take."""
        return self.space.fits(blocks)

    @property
    def total_blocks(self) -> int:
        """KV blocks of the replica."""
        return self.replica.pool.total

    @property
    def free_blocks(self) -> int:
        """KV blocks that are free or evictable, besides those that this step's decodes take."""
        return self.space.left()

    @property
    def store(self) -> Store | None:
        """The host's memory that keeps the KV, by the cost model; None where the devices keep all of it."""
        return getattr(self.replica.estimator, "store", None)

    def predict(self, chunks: Several[Chunk], decodes: int = ALL, context: int = 0, share: float = 0.0) -> int:
        """Picoseconds of a step with `chunks` and decodes: this lane's, none, or a number with `context` KV tokens.

        At the device's usual speed: a slow spell is not predicted.
        """
        group = self.group
        if decodes == ALL:
            decodes, context = group.n, group.context(group.step)
            if self.paused:
                decodes += len(self.paused)
                context += sum([sequence.computed + 1 for sequence in self.paused.values()])
            seen = self._seen() if group.window else 0
        else:
            seen = min(context, decodes * group.window)
        piece = self.replica.estimator.step(made(StepShape, (decodes, tuple(chunks), share or self.spec.share)))
        base, per_kv, per_window, _, _ = piece if context <= piece.until_kv else piece.at(context)
        return base + per_kv * context + per_window * seen

    def _seen(self) -> int:
        """KV tokens that the sliding windows of this lane's decodes see."""
        group = self.group
        group.steps_to_crossing()
        apart = sum([min(sequence.computed + 1, group.window) for sequence in self.paused.values()])
        return group.window_context(group.step) + apart

    # The running batch -----------------------------------------------------------------------------------------------

    def reprice(self, estimate: Callable[[StepShape], Piece]) -> None:
        """Steps that begin from now on have the costs of `estimate`."""
        self.estimate = estimate
        self._one_chunk = None
        self._pieces.clear()
        self._shared_pieces.clear()

    def done(self, now: int, passed: bool) -> int:
        """Steps of the held batch that have ended at `now`; `passed`: one that ends just then counts."""
        if self.steps <= 1 or not self.decoded:
            return 0
        return min(steps_within(self.first, self.growth, now - self.began_at, passed), self.steps - 1)

    def progress(self, now: int) -> tuple[int, int, int]:
        """Decode steps of the held batch that have ended by `now`, picoseconds into the next, and its duration."""
        if not self.decoded:
            return 0, 0, 0
        elapsed = now - self.began_at
        done = min(steps_within(self.first, self.growth, elapsed, True), self.steps - 1)
        return done, elapsed - span(self.first, self.growth, done), self.first + done * self.growth

    def piece_alone(self) -> Piece:
        """The cost of one decode alone on this lane, at its device's usual speed."""
        if self.alone is None:
            self.alone = self.replica.estimator.step(StepShape(1, (), self.spec.share))
        return self.alone

    def context(self, now: int, passed: bool) -> int:
        """KV tokens that the lane's requests hold at `now`."""
        group = self.group
        tokens = group.offsets + group.n * (group.step + self.done(now, passed)) if group.n else 0
        for sequence in (*self.prefilling, *self.joining, *self.paused.values()):
            tokens += sequence.computed
        return tokens

    def reach(self, now: int, passed: bool = True) -> int:
        """The group's step counter up to which blocks are taken at `now`, the running step included."""
        if not self.decoded:
            return self.group.step
        return self.group.step + self.done(now, passed) + 1

    def cut(self, now: int, passed: bool) -> None:
        """End the held batch at its next step boundary (or look again now, if idle)."""
        if not self.steps:
            self.until = now
        elif self.passing is not None:
            self._leave(self.passing, now, passed)
        elif self.steps > 1:
            steps = steps_within(self.first, self.growth, now - self.began_at, passed) + 1
            if steps < self.steps:
                self.steps = steps
                self.until = self.began_at + steps * self.first + self.growth * (steps * (steps - 1) // 2)

    def ends_at(self, now: int) -> bool:
        """Whether a step of the held batch, its last or not, ends exactly at `now`."""
        if self.passing is not None:
            return False  # nothing is decided between two layers unless something comes from outside
        if self.steps <= 1:
            return self.until == now
        elapsed = now - self.began_at
        ended = steps_within(self.first, self.growth, elapsed, True)
        return elapsed > 0 and span(self.first, self.growth, ended) == elapsed

    def commit(self) -> None:
        """The batch is over: advance its decodes and chunks, and hand over what finished."""
        if self.passing is not None and self._passes_on(self.passing):
            return
        replica = self.replica
        group = self.group
        stats = replica.stats
        steps = self.steps
        if replica.slices is not None:
            replica.slices.append((self.began_at, self.until, self.index, group.n if self.decoded else 0, self.tokens))
        stats.steps += steps
        stats.batches += 1
        self.steps = 0
        self.until = NEVER
        self.job = None
        if self.decoded:
            self.decoded = False
            group.step += steps
            stats.decode_tokens += steps * group.n
            if group.next_finish <= group.step:
                for sequence in group.finished():
                    replica.finish(sequence, self)
        if self.chunks:
            stats.prompt_tokens += self.tokens
            stats.prompting += self.first
            chunks, self.chunks = self.chunks, []
            for sequence, entry in chunks:
                if sequence.account is not None:
                    sequence.account.computed(entry, self, self.first, self.first)
                _, tokens, _, last_layer = entry
                if last_layer and last_layer < self.model_layers:
                    sequence.layer = last_layer
                else:
                    replica.advance(sequence, tokens, self)

    def start(self, now: int) -> None:
        """Ask the batcher for the next batch and begin it."""
        replica = self.replica
        self.until = NEVER
        if self.joining:
            self._join()
        group = self.group
        prompts = self.prefilling or replica.waiting
        if not (group.n or prompts or self.paused):
            return
        self.preempted = False
        if group.step >= self.review_at:
            replica.preemptor.review(self)
            prompts = self.prefilling or replica.waiting
        space, pool, room = self.space, replica.pool, -1
        if space.only is not None:  # `room_at_least`, written out
            at_most = (group.offsets + group.n * (group.step + 1)) // group.block + group.n - group.shared
            room = pool.total - pool.held - pool.explicit - at_most
        first = self._prompts_first and (prompts or self.paused)  # room for decodes is made once they take part
        if not first and room < 0 and group.n and not space.fits(0):
            replica.preemptor.make_room(self)
        if pool.cached and pool.cached > room and not first:
            space.settle()
        if self._decodes_alone and not (prompts or self.paused or self.preempted):
            self._begin_decodes(ALL_DECODES, now, room)
            return
        if self.fills and not (self.paused or self.preempted):
            room = fill(self, room)
            if room >= 0:
                self._begin_plain(now, room)
                return
        batch = self.compose(self)
        if batch.setup:
            self._set_up(batch)
        if batch.decode != ALL or self.paused:
            self._choose_decodes(batch)
        if batch.entries:
            self._take_all(batch)
            if self.chunks:
                self._begin_chunks(batch, now)
                return
        if group.n and batch.decode != NONE:
            if first:
                self._make_room()
            self._begin_decodes(batch, now, -1)
        elif batch.entries:
            self.until = now  # who was admitted without work may have some now
        elif batch.wake_at:
            self._check_wake(batch, now)
            self.until = batch.wake_at

    def _begin_plain(self, now: int, room: int) -> None:
        """Time the plain step that was filled, or the decodes alone where no prompt found a place in it.

        room: blocks that are surely free or evictable.
        """
        chunks = self.chunks
        if not chunks:
            if self.group.n:
                self._begin_decodes(BLOCKED, now, room)
            return
        if self.replica.pool.cached > room:
            self.space.settle()
        if len(chunks) > 1 or self._one_chunk is None:
            self._begin_chunks(PROMPTS, now)
            return
        sequence, entry = chunks[0]
        group = self.group
        self.tokens = tokens = entry.tokens
        base, per_kv = self._one_chunk(group.n, tokens, sequence.computed)
        first = base + self.swapping + self.reading + per_kv * (group.offsets + group.n * (group.step + 1))
        self.swapping = self.growth = 0
        self.decoded = group.n > 0
        self.hold = ONE_STEP
        self.first, self.steps = first, 1
        self.began_at = now
        self.until = now + first

    def _leave(self, passing: LayerPass, now: int, passed: bool) -> None:
        """Let the pass end at its next boundary between two layers."""
        before = passing.last
        self.first = passing.leave(now - self.began_at, passed)
        self.until = self.began_at + self.first
        if passing.last < before:
            self.chunks = [
                (sequence, made(Entry, (request, tokens, layer, passing.last)))
                for sequence, (request, tokens, layer, _) in self.chunks
            ]

    def _passes_on(self, passing: LayerPass) -> bool:
        """Whether a pass is only between two layers, as the slow reference looks at it; if not, it is over."""
        elapsed = self.until - self.began_at
        if elapsed < passing.duration:
            self.until = self.began_at + passing.next_after(elapsed)[1]
            return True
        self.passing, self.left, self.left_at = None, passing, self.until
        return False

    def decode(self, sequence: Sequence) -> None:
        """Add a sequence to the group, which counts its blocks from now on; only between two steps."""
        pool = self.replica.pool
        pool.explicit -= pool.private(sequence)
        self.group.join(sequence)

    def take_out(self, sequence: Sequence) -> bool:
        """Remove a decoding sequence, its blocks counted by the pool again; False if it does not decode here."""
        if self.group.members.get(sequence.id) is sequence:
            self.group.leave(sequence)
            pool = self.replica.pool
            pool.explicit += pool.private(sequence)
        elif sequence in self.joining:
            self.joining.remove(sequence)
        elif self.paused.get(sequence.id) is sequence:
            del self.paused[sequence.id]
        else:
            return False
        return True

    def _join(self) -> None:
        for sequence in self.joining:
            self.decode(sequence)
        self.joining.clear()

    def _choose_decodes(self, batch: Batch) -> None:
        """Bring the group to the decodes that the batch names: the others pause, keeping their blocks."""
        if batch.decode == NONE:
            return
        pool, group = self.replica.pool, self.group
        chosen = None if isinstance(batch.decode, int) else set(batch.decode)
        for sequence in self._coming_back(chosen):
            del self.paused[sequence.id]
            self.decode(sequence)
        if chosen is not None:
            for sequence in [each for each in group if each.id not in chosen]:
                group.leave(sequence)
                pool.explicit += pool.private(sequence)
                self.paused[sequence.id] = sequence
        if not self.space.fits(0):
            self.replica.preemptor.make_room(self)

    def _coming_back(self, chosen: set[int] | None) -> list[Sequence]:
        """Those of the paused decodes that are chosen (None: all), in order; mostly it is one of very many."""
        paused = self.paused
        if chosen is None:
            return list(paused.values())
        back = paused.keys() & chosen
        if len(back) > 1:
            return [each for each in paused.values() if each.id in back]
        return [paused[request] for request in back]

    def _take_all(self, batch: Batch) -> None:
        replica = self.replica
        alone = self._prompts_first and batch.decode == NONE
        for entry in batch.entries:
            self._take(entry, alone)
        if self.joining:  # brought back from host memory
            self._join()
            if not self.space.fits(0):
                raise PolicyError(
                    f"{type(replica.batcher).__name__} brought back more than fits; ask `lane.room` first"
                )
        if replica.pool.cached:
            if alone:
                replica.pool.settle(max(0, self.space.available(self.space.now)))
            else:
                self.space.settle()

    def _make_room(self) -> None:
        """Make room for the next step of all decodes, which a batcher with `prompts_first` has chosen."""
        if not self.space.fits(0):
            self.replica.preemptor.make_room(self)
        if self.replica.pool.cached:
            self.space.settle()

    def _take(self, entry: Entry, alone: bool) -> None:
        """Put one entry's tokens into the batch, admitting its request if it waits.

        alone: only what is in use now counts, not what the next step's decodes take as well.
        """
        replica = self.replica
        request, tokens, first_layer, last_layer = entry
        sequence = replica.sequences.get(request)
        phase = Phase.HELD if sequence is None else sequence.phase
        if sequence is None or (phase != Phase.PREFILL and phase != Phase.WAITING):
            raise PolicyError(f"entry {entry} names a request that has no prompt to compute here")
        if phase == Phase.WAITING:
            if self.preempted:
                return  # a step that had to preempt admits no request, least of all its victims
            if not replica.admit(sequence, self):
                return  # its KV comes from elsewhere
        elif sequence.lane != self.index:
            raise PolicyError(f"entry {entry}: request {request} is prefilled on another lane")
        left = sequence.need - sequence.computed
        if tokens > left or (not first_layer and last_layer == self.model_layers > 0):
            entry = self._fit(entry, left)
            tokens = entry.tokens
        if tokens < 1 or sequence.layer != first_layer or (first_layer and tokens != sequence.chunk):
            raise PolicyError(
                f"entry {entry} does not go on where {sequence!r} is (layer {sequence.layer}, chunk {sequence.chunk})"
            )
        if not first_layer:
            blocks = self.space.blocks_for(sequence, tokens)
            while not (self.space.available(self.space.now) >= blocks if alone else self.space.fits(blocks)):
                if replica.preemptor.give_way(self) is sequence:
                    return
            replica.pool.grow(sequence, tokens)
        self.chunks.append((sequence, entry))

    def _fit(self, entry: Entry, left: int) -> Entry:
        """The entry cut to what is left to compute; a pass through all layers is written (0, 0)."""
        whole = entry.first_layer == 0 and entry.last_layer == self.model_layers
        return Entry(entry.request, min(entry.tokens, left), entry.first_layer, 0 if whole else entry.last_layer)

    def _begin_chunks(self, batch: Batch, now: int) -> None:
        """Time one step with prompt work."""
        group = self.group
        decodes = group.n if batch.decode != NONE else 0
        tokens = 0
        chunks: list[Chunk] = []
        for sequence, (_, count, first_layer, last_layer) in self.chunks:
            chunks.append(made(Chunk, (count, sequence.computed, first_layer, last_layer)))
            if not first_layer:
                tokens += count
        self.tokens = tokens
        device = self.replica.device
        share = (batch.share or self.spec.share) if device is None else device.claim(self, batch.share)
        shape = made(StepShape, (decodes, tuple(chunks), share))
        piece = self.estimate(shape)
        apart = self.swapping + self.reading
        context = window = 0
        first = piece.base + apart
        if decodes:
            context = group.context(group.step)
            if context > piece.until_kv:
                piece = piece.at(context)
                first = piece.base + apart
            first += piece.per_kv * context
            if group.window:
                group.steps_to_crossing()
                window = group.window_context(group.step)
                first += piece.per_window * window
        if device is not None:
            self.job = Job(Running(shape, context, window), apart, self.estimate)
        self.swapping = self.growth = 0
        self.decoded = decodes > 0
        self.hold = batch.hold
        self.first, self.steps = first, 1
        self.began_at = now
        self.until = now + first
        if batch.leave:
            self._begin_pass(batch, tuple(chunks), share, first - piece.base, now)

    def _begin_pass(self, batch: Batch, chunks: tuple[Chunk, ...], share: float, swapping: int, now: int) -> None:
        """Let the step just begun be interrupted between two layers; one interrupted at this very instant continues."""
        if self.decoded:
            raise PolicyError(
                f"{type(self.replica.batcher).__name__}: a batch with decodes cannot be left between layers; give "
                "decode=NONE, or leave=False"
            )
        before = self.left if self.left_at == now else None
        ids = tuple([sequence.id for sequence, _ in self.chunks])
        self.passing = passing = LayerPass(
            self.model_layers, self.estimate, ids, chunks, share, self.first, swapping, before
        )
        self.first = passing.duration
        self.until = now + (passing.next_after(0)[1] if self.replica.one_step else self.first)

    def _begin_decodes(self, batch: Batch, now: int, room: int) -> None:
        """Time as many decode steps as nothing in the batch changes; `room` blocks are surely left after the first."""
        group = self.group
        n, step = group.n, group.step
        entries, _, hold, share, _, wake_at, _ = batch
        device = self.replica.device
        if device is not None:
            share = device.claim(self, share)
        pieces = self._pieces
        piece = pieces[n] if n < len(pieces) and not share else None
        if piece is None:
            piece = self._piece(n, share)
        context = group.offsets + n * (step + 1)
        if context > piece.until_kv:
            piece = piece.at(context)
        base, per_kv, per_window, until_kv, _ = piece
        first = base + self.swapping + self.reading + per_kv * context
        growth = per_kv * n
        steps = 1
        if not (hold == ONE_STEP or entries or self.preempted or self.swapping or self.replica.one_step):
            steps = group.next_finish - step
            if context + n * (steps - 1) > until_kv:
                steps = max(1, (until_kv - context) // n + 1)
        if group.window:
            steps = min(steps, group.steps_to_crossing())
            first += per_window * group.window_context(step)
            growth += per_window * group.short
        if steps > self.review_at - step:
            steps = self.review_at - step
        if steps > 1:
            pool = self.replica.pool
            spare = room - n * (steps - 1) // group.block  # what the further steps surely leave of it, and one more
            if spare <= 0 or pool.ranked:
                steps = self.space.steps(self, steps)
            self.calm = pool.total if spare > pool.cached else -1
        if wake_at:
            self._check_wake(batch, now)
            if steps > 1:
                steps = min(steps, steps_within(first, growth, wake_at - now, False) + 1)
        if device is not None:
            seen = group.window_context(step) if group.window else 0
            apart = self.swapping + self.reading
            self.job = Job(Running(StepShape(n, (), share), context, seen), apart, self.estimate)
        self.tokens = self.swapping = 0
        self.decoded = True
        # Behind a request without a slot for its adapter another one may find a place.
        self.hold = UNTIL_CHANGE if hold == UNTIL_HEAD and self.replica.adapters is not None else hold
        self.first, self.growth, self.steps = first, growth, steps
        self.began_at = now
        self.until = now + steps * first + growth * (steps * (steps - 1) // 2)

    def _piece(self, n: int, share: float) -> Piece:
        """The cost of `n` decodes alone with a batch's share of the SMs, 0 for the lane's own; cached."""
        known = self._shared_pieces.get((n, share)) if share else None
        if known is not None:
            return known
        piece = self.estimate(StepShape(n, (), share or self.spec.share))
        if share:
            self._shared_pieces[n, share] = piece
        else:
            self._pieces += [None] * (n + 1 - len(self._pieces))
            self._pieces[n] = piece
        return piece

    def _set_up(self, batch: Batch) -> None:
        """Let the next step begin only after the setup; that of the next batch, should this one have no work left."""
        if batch.setup < 0:
            raise PolicyError(
                f"{type(self.replica.batcher).__name__}: setup {batch.setup} ps is below 0; give 0 or more"
            )
        self.swapping += batch.setup

    def _check_wake(self, batch: Batch, now: int) -> None:
        if batch.wake_at <= now:
            raise PolicyError(
                f"{type(self.replica.batcher).__name__} wants to be asked again at {batch.wake_at} ps, and it is "
                f"{now} ps; give a later wake_at, or 0"
            )
