"""Step costs: the question (`StepShape`), the answer (`Piece`) and the estimator (`Estimator`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Chunk(NamedTuple):
    """Prompt work of one request in one step: `tokens` new tokens after `context` earlier ones.

    `first_layer` and `last_layer` bound the layers passed in this step; (0, 0) means all of them.
    """

    tokens: int
    context: int
    first_layer: int = 0
    last_layer: int = 0


class StepShape(NamedTuple):
    """One step of one lane.

    decodes: requests that compute one token each.
    chunks: prompt work in the same step.
    share: the part of the device's SMs that the lane has, in (0, 1].
    """

    decodes: int
    chunks: tuple[Chunk, ...] = ()
    share: float = 1.0


class Piece(NamedTuple):
    """The duration of a step as a straight line in the KV tokens that its decodes read, in picoseconds.

    duration = base + per_kv · Σ context + per_window · Σ min(context, window), sums over the decodes, valid while
    Σ context ≤ `until_kv`, and as `then` says beyond it; at least 1 there, so the base of a later piece may be below 0.
    Because decodes grow by one token a step, k equal steps have a closed form.
    """

    base: int
    per_kv: int = 0
    per_window: int = 0
    until_kv: int = 1 << 62
    then: Piece | None = None

    def at(self, kv: int) -> Piece:
        """The piece that holds where decodes read `kv` tokens."""
        piece = self
        while kv > piece.until_kv and piece.then is not None:
            piece = piece.then
        return piece


class Running(NamedTuple):
    """A step that runs beside others: its shape, and the KV tokens and those in windows that its decodes read."""

    shape: StepShape
    kv: int
    window: int


class Sharing(Protocol):
    """How lanes of one device slow one another.

    switch: picoseconds before a step whose lane has another share than in its last step.
    """

    switch: int

    def host(self, shape: StepShape) -> int:
        """Picoseconds of a step, at its begin, in which the lane's host works and its SMs are left to other lanes."""
        ...

    def factors(self, running: Sequence[Running]) -> list[float]:
        """The factor, at least 1, on the device's time of each step alone with its share while all run side by side."""
        ...


class Store(NamedTuple):
    """A host's memory that keeps the KV of a replica, whose devices have one layout for prompts, another for decodes.

    blocks, sequences: KV blocks that the devices themselves hold while they decode, and of how many requests at most.
    to_prefill, to_decode: picoseconds to change to that layout.  block: picoseconds to bring one KV block back to the
    devices.
    """

    blocks: int
    sequences: int
    to_prefill: int
    to_decode: int
    block: int


class Estimator(Protocol):
    """Answers for one pool: one model in one layout on one device, under one engine.

    window: tokens that a sliding-window layer attends to, 0 where the model has none; `Piece.per_window` uses it.
    One whose lanes slow one another has `sharing` as well, a `Sharing`; without it lanes divide the SMs and no more.
    One whose devices change their layout has a `store` as well, a `Store`.
    One whose replicas survive the loss of a device has `after_loss(lost)` as well (the function of this name).
    One that answers for a single chunk without a shape has `one_chunk(decodes, tokens, context)` as well: base and
    per_kv of `step(StepShape(decodes, (Chunk(tokens, context),)))`, where that piece holds for any context and there is
    no window. A class that overrides `step` alone does not inherit it.
    """

    @property
    def window(self) -> int:
        """Tokens that a sliding-window layer attends to."""
        ...

    def step(self, shape: StepShape) -> Piece:
        """The piece that holds for `shape`; `Piece.per_kv` and `per_window` cover the decodes only."""
        ...

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV cache (and constant state) of one request of `tokens` tokens, on all devices of a replica."""
        ...

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds to move `kv_bytes` between the devices of a replica and host memory, one way.

        runs: stretches of memory that they lie in, in each layer; each is a copy that has to be begun.
        """
        ...

    def describe(self) -> dict[str, object]:
        """Coefficients, efficiencies and their sources, as they go into the resolved scenario and reports."""
        ...


class AdapterCost(Protocol):
    """What the adapters (LoRA) of one pool cost, by their numbers; times in picoseconds."""

    def load(self, adapter: int, in_host: bool) -> int:
        """The time to bring an adapter to the device: from host memory, or from disk through it."""
        ...

    def read(self, adapter: int) -> int:
        """What a step takes longer while a request with this adapter runs."""
        ...

    def launch(self) -> int:
        """What a step takes longer besides while any request with an adapter runs, however many there are."""
        ...


def after_loss(estimator: Estimator, lost: int) -> float | None:
    """The factor on step times while this many devices of a replica are lost; None: the replica is lost with them.

    So it is where an estimator has no method of this name: all devices of a replica work together.
    """
    after_loss = getattr(estimator, "after_loss", None)
    return None if after_loss is None else after_loss(lost)


def one_chunk(estimator: Estimator) -> Callable[[int, int, int], tuple[int, int]] | None:
    """The estimator's `one_chunk`, None without one, or where the class that has it is not the one that has `step`.

    It is looked for in classes only, so a wrapper that hands on what it does not know never hands on this.
    """
    for each in type(estimator).__mro__:
        if "one_chunk" in vars(each):
            found: Callable[[int, int, int], tuple[int, int]] = estimator.one_chunk  # type: ignore[attr-defined]
            return None if estimator.window else found
        if "step" in vars(each):
            return None
    return None
