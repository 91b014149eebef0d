"""Decisions of policies, and actions that a world performs."""

from __future__ import annotations

from typing import Final, NamedTuple

from poise.core.spec import Role


class Route(NamedTuple):
    """A router's answer: send the request to `replica`; `decode` names the partner of a prefill replica.

    fallback: replicas to try, in order, where the first refuses before its first byte.
    """

    replica: int
    decode: int | None = None
    fallback: tuple[int, ...] = ()


class Hold(NamedTuple):
    """A router's answer: keep the request at the gateway, until capacity frees or until `wake_at`."""

    reason: str
    wake_at: int = 0


class Reject(NamedTuple):
    """A router's or an admission's answer: refuse the request; the client may retry after `retry_after` picoseconds."""

    reason: str
    retry_after: int = 0


class Dispatch(NamedTuple):
    """Send request `request` to `replica`, its output being made by `decode` (the same replica unless a P/D pair).

    resume: the client already has part of the output; continue from there instead of starting again.
    """

    request: int
    replica: int
    decode: int
    resume: bool = False


class Refuse(NamedTuple):
    """Refuse `request` to its client, which may retry after `retry_after` picoseconds (0: not stated)."""

    request: int
    reason: str
    retry_after: int = 0


class Abort(NamedTuple):
    """Stop request `request` on `replica`: its client has left, or another replica has answered it."""

    request: int
    replica: int


class Move(NamedTuple):
    """Move request `request` from replica `source` to `target`: taken back from the queue, or migrated as it runs."""

    request: int
    source: int
    target: int


class Lend(NamedTuple):
    """Let replica `debtor` use `blocks` KV blocks of replica `creditor`; a negative number gives blocks back."""

    debtor: int
    creditor: int
    blocks: int


class Hedge(NamedTuple):
    """Send a copy of request `request` to `replica` too; the first of the two to give a first token keeps it."""

    request: int
    replica: int


class Scale(NamedTuple):
    """Set the size of pool `pool`: `replicas` replicas and `warm` pre-warmed slots."""

    pool: int
    replicas: int
    warm: int = 0


class Convert(NamedTuple):
    """Change the role of replica `replica`: it drains, prepares for the role and serves again, on its own devices."""

    replica: int
    role: Role


class Wake(NamedTuple):
    """Send a `Tick` at `at`."""

    at: int


Decision = Route | Hold | Reject
Action = Dispatch | Refuse | Abort | Move | Lend | Hedge | Scale | Convert | Wake

ALL: Final = -1
"""`Batch.decode`: every decoding request of the lane."""
NONE: Final = 0
"""`Batch.decode`: no decoding request."""

ONE_STEP: Final = 0
UNTIL_HEAD: Final = 1
UNTIL_CHANGE: Final = 2
"""`Batch.hold`: one step; until another request heads the queue or one ends; until anything arrives or ends."""


class Entry(NamedTuple):
    """Compute the next `tokens` tokens of the prompt of `request`, in layers [first_layer, last_layer) ((0, 0): all).

    `tokens` is cut to what is left when part of it turns out to be cached. 0 tokens admits a request whose KV comes
    from elsewhere: another replica, or host memory after a swap. A chunk that stops short of the last layer is
    continued by an entry of the same tokens that starts at the layer where it stopped.
    """

    request: int
    tokens: int
    first_layer: int = 0
    last_layer: int = 0


class Batch(NamedTuple):
    """A batcher's answer: what the lane computes in its next step.

    decode: ALL, NONE or the ids of the decoding requests that take part.  hold: for how long the batch would be
    composed the same again; it is held only while it has no entries.  share: SM share of this step, 0: the lane's own.
    leave: the step is interrupted at the next layer boundary by an outside event; the rest is computed
    by later entries from that layer; its entries pass the same layers, and no decode takes part.
    wake_at: call again at this instant (picoseconds, 0: no need), or at the end of the step running then, even if
    nothing has changed.  setup: picoseconds that the step takes longer before it begins, at any speed of the device.
    """

    entries: tuple[Entry, ...] = ()
    decode: int | tuple[int, ...] = ALL
    hold: int = ONE_STEP
    share: float = 0.0
    leave: bool = False
    wake_at: int = 0
    setup: int = 0
